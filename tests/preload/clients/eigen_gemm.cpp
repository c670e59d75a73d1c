/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of Eigen's matrices, for which it asks a BLAS when EIGEN_USE_BLAS is defined. Two of the four types, for
 * each takes ten seconds to compile; armadillo_gemm.cpp has all. Prints a line "products ROUTINE N" for each type, or
 * exits with 1 at the first wrong one. */
#define EIGEN_USE_BLAS
#include <Eigen/Core>

#include "wide_product.h"

template <typename T> int products(shape s) {
  typedef Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic> matrix;
  typedef Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> by_rows;
  const auto random = [] { return random_element<T>(); };
  const matrix a = matrix::NullaryExpr(s.m, s.k, random), b = matrix::NullaryExpr(s.k, s.n, random);
  const matrix before = matrix::NullaryExpr(s.m, s.n, random), none = matrix::Zero(s.m, s.n);
  const matrix at = a.transpose(), bt = b.transpose(), ac = a.adjoint(), bc = b.adjoint(), aj = a.conjugate();
  const by_rows ar = a, br = b;
  const T one = 1, alpha = element<T>::of(-1.5, 0.25);
  int count = 0;
  const auto is_product = [&](const char *form, const matrix &got) {
    check(form, s, got.data(), one, a.data(), b.data(), one, none.data());
    count++;
  };
  is_product("A B", a * b);
  is_product("A' B", at.transpose() * b);
  is_product("A B'", a * bt.transpose());
  is_product("A^H B", ac.adjoint() * b);
  is_product("A B^H", a * bc.adjoint());
  is_product("A^H B^H", ac.adjoint() * bc.adjoint());
  is_product("conj(A) B", aj.conjugate() * b);
  is_product("A B by rows", ar * br);
  is_product("C by rows", by_rows(a * br));
  matrix c = before;
  c.noalias() += alpha * a * bt.transpose();
  check("C + alpha A B'", s, c.data(), alpha, a.data(), b.data(), one, before.data());
  return count + 1;
}

template <typename T> void all_shapes(const char *routine) {
  int count = 0;
  for (const shape &s : shapes) count += products<T>(s);
  std::printf("products %s %d\n", routine, count);
}

int main() {
  all_shapes<float>("sgemm");
  all_shapes<std::complex<double>>("zgemm");
}
