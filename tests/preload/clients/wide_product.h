/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the C++ clients share: the elements of the four types, and the check of a product against long double with the
 * bound of a sum of k terms. Column-major, no gaps. One thread.
 */
#ifndef CLIENT_WIDE_PRODUCT_H
#define CLIENT_WIDE_PRODUCT_H

#include <complex>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>

typedef std::complex<long double> wide;

template <typename T> struct element {
  typedef T real;
  static constexpr bool is_complex = false;
  static T of(double re, double) { return (T)re; }
};

template <typename R> struct element<std::complex<R>> {
  typedef R real;
  static constexpr bool is_complex = true;
  static std::complex<R> of(double re, double im) { return {(R)re, (R)im}; }
};

inline double random_part() {
  static std::mt19937 generator(4);
  return std::uniform_real_distribution<double>(-1, 1)(generator);
}

template <typename T> T random_element() {
  const double re = random_part();
  return element<T>::of(re, element<T>::is_complex ? random_part() : 0);
}

struct shape {
  int m, n, k;
};

static const shape shapes[] = {{40, 50, 60}, {33, 65, 31}, {128, 3, 129}};

/* Ends the program unless `got` is alpha A B + beta before, A of m x k elements and B of k x n. */
template <typename T>
void check(const char *form, shape s, const T *got, T alpha, const T *a, const T *b, T beta, const T *before) {
  /* Two parts of 2k terms each, together sqrt(2) 2k < 3k roundings; a complex alpha or beta is worth three of them. */
  const int of_product = element<T>::is_complex ? 3 * s.k + 8 : s.k + 3, of_c = element<T>::is_complex ? 5 : 3;
  const long double half_eps = std::numeric_limits<typename element<T>::real>::epsilon() / 2;
  for (int i = 0; i < s.m; i++)
    for (int j = 0; j < s.n; j++) {
      wide sum = 0;
      long double sizes = 0;
      for (int l = 0; l < s.k; l++) {
        const wide x(a[i + l * s.m]), y(b[l + j * s.k]);
        sum += x * y;
        sizes += std::abs(x) * std::abs(y);
      }
      const wide c(before[i + j * s.m]), expected = wide(alpha) * sum + wide(beta) * c;
      const long double error = std::abs(wide(got[i + j * s.m]) - expected);
      const long double bound = half_eps * (of_product * std::abs(alpha) * sizes + of_c * std::abs(beta) * std::abs(c));
      if (error <= bound) continue;
      std::printf("%s of %dx%dx%d: error %Lg, bound %Lg\n", form, s.m, s.n, s.k, error, bound);
      std::exit(1);
    }
}

#endif
