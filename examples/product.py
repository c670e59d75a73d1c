# SPDX-License-Identifier: BSD-3-Clause
"""A product in NumPy. It is answered by TileBLAS when that is preloaded."""
import numpy

a = numpy.arange(64 * 64, dtype=numpy.float32).reshape(64, 64) % 7
b = a + 1  # another matrix: for a @ a.T NumPy calls ssyrk, which stays on the CPU
product = a @ b
assert (product == a.astype(numpy.int64) @ b.astype(numpy.int64)).all()
print(product[0, :4])
