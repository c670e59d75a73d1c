/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of Armadillo's matrices in four types. Prints a line "products ROUTINE N" for each type, or exits with 1 at
 * the first wrong one. */
#define ARMA_DONT_USE_WRAPPER /* libarmadillo, which only passes calls on */
#include <armadillo>

#include "wide_product.h"

template <typename T> arma::Mat<T> random_matrix(int rows, int columns) {
  return arma::Mat<T>((arma::uword)rows, (arma::uword)columns).imbue(random_element<T>);
}

template <typename T> int products(shape s) {
  typedef arma::Mat<T> matrix;
  const matrix a = random_matrix<T>(s.m, s.k), b = random_matrix<T>(s.k, s.n), before = random_matrix<T>(s.m, s.n);
  const matrix none(before.n_rows, before.n_cols, arma::fill::zeros);
  const matrix at = a.st(), bt = b.st(), ac = a.t(), bc = b.t();
  const T one = 1, alpha = element<T>::of(-1.5, 0.25);
  int count = 0;
  const auto is_product = [&](const char *form, const matrix &got) {
    check(form, s, got.memptr(), one, a.memptr(), b.memptr(), one, none.memptr());
    count++;
  };
  is_product("A B", a * b);
  is_product("A' B", at.st() * b);
  is_product("A B'", a * bt.st());
  is_product("A^H B", ac.t() * b);
  is_product("A B^H", a * bc.t());
  is_product("A^H B^H", ac.t() * bc.t());
  matrix c = before;
  c += a * b;
  check("C + A B", s, c.memptr(), one, a.memptr(), b.memptr(), one, before.memptr());
  c = alpha * a * b;
  check("alpha A B", s, c.memptr(), alpha, a.memptr(), b.memptr(), one, none.memptr());
  return count + 2;
}

template <typename T> void all_shapes(const char *routine) {
  int count = 0;
  for (const shape &s : shapes) count += products<T>(s);
  std::printf("products %s %d\n", routine, count);
}

int main() {
  all_shapes<float>("sgemm");
  all_shapes<double>("dgemm");
  all_shapes<std::complex<float>>("cgemm");
  all_shapes<std::complex<double>>("zgemm");
}
