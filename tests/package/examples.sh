#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The programs of examples/ run against an installed tree as their README says: with pkg-config, with find_package, preloaded,
# and from NumPy. Each is right, and the report shows that TileBLAS was called. Seen to fail when: the prefix is
# fixed in tileblas.pc, or the preload is left out.
. "$(dirname "$0")/common.sh"
skip_if_sanitized "an instrumented library is not installed, and cannot be linked by an ordinary cc"
examples=$TB_TEST_SOURCE/examples
lib=$prefix/$TB_TEST_LIBDIR
echo 'int main(void) { return 0; }' | "$CC" -x c - -lopenblas -o "$work/probe" 2>/dev/null ||
  skip "no OpenBLAS to link with (Debian: libopenblas-dev)"

ran() { # HOW SYMBOL: the program that has just run was answered by TileBLAS
  grep -q "^tileblas: symbols .*$2=[1-9]" "$work/report" || fail "$1: the report shows no $2: $(cat "$work/report")"
  rm -f "$work/report"
  echo "right: $1"
}
export TILEBLAS_REPORT=$work/report OPENBLAS_NUM_THREADS=1

# shellcheck disable=SC2046 # the words are meant to be split
PKG_CONFIG_PATH=$lib/pkgconfig "$CC" "$examples/steer.c" \
  $(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config --cflags --libs tileblas) -o "$work/steer" || fail "pkg-config: linking"
LD_LIBRARY_PATH=$lib "$work/steer" || fail "pkg-config: steer"
ran "C, linked by pkg-config" cblas_sgemm

"$CMAKE" -G Ninja -S "$examples" -B "$work/found" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$CC" \
  >"$work/found.log" 2>&1 && "$CMAKE" --build "$work/found" >>"$work/found.log" 2>&1 ||
  fail "find_package: $(cat "$work/found.log")"
for program in product steer; do
  "$work/found/$program" || fail "find_package: $program"
  ran "C, linked by find_package: $program" cblas_sgemm
done

"$work/found/batch" || fail "find_package: batch"
ran "C, linked by find_package: batch" cblas_sgemm_batch_strided

"$CC" "$examples/product.c" -lopenblas -o "$work/product" || fail "linking with OpenBLAS"
LD_PRELOAD=$lib/libtileblas.so.0 "$work/product" || fail "preloaded product"
ran "C, preloaded" cblas_sgemm

for python in /usr/bin/python3 python3 ""; do
  [ -z "$python" ] || ! "$python" -c 'import numpy' 2>/dev/null || break
done
if [ -n "$python" ]; then
  LD_PRELOAD=$lib/libtileblas.so.0 "$python" "$examples/product.py" || fail "product.py"
  ran "NumPy" cblas_sgemm
else
  echo "no NumPy on this machine: examples/product.py was left out"
fi
