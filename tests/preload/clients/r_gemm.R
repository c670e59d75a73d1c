# SPDX-License-Identifier: BSD-3-Clause
# R's products in double and complex, each checked against R's own loops, which sum in long double, with the bound of a
# sum of k terms. Prints a line "products ROUTINE N" for each type, or exits with 1 at the first wrong one.
u <- .Machine$double.eps / 2

random <- function(rows, columns, is_complex, number = function(n) runif(n, -1, 1)) {
  x <- number(rows * columns)
  if (is_complex) x <- complex(real = x, imaginary = number(rows * columns))
  matrix(x, rows, columns)
}

# A product that asks no BLAS.
plain <- function(x, y) {
  usual <- options(matprod = "internal")
  on.exit(options(usual))
  x %*% y
}

check <- function(name, got, expected, bound) {
  if (!identical(dim(got), dim(expected)) || !all(Mod(got - expected) <= bound)) {
    cat(name, ": error", max(Mod(got - expected)), "bound", max(bound), "\n")
    quit(status = 1)
  }
}

products <- function(routine, is_complex, m, n, k) {
  x <- random(m, k, is_complex)
  y <- random(k, n, is_complex)
  # Two parts of 2k terms each are together off by sqrt(2) 2k < 3k roundings. R's loops round each term.
  terms <- if (is_complex) 3 * k + 6 else k + 3
  forms <- list("x %*% y" = x %*% y, "crossprod" = crossprod(t(x), y), "tcrossprod" = tcrossprod(x, t(y)))
  for (form in names(forms))
    check(paste(routine, form, m, n, k), forms[[form]], plain(x, y), terms * u * plain(Mod(x), Mod(y)))
  length(forms)
}

# LU computes the x of whole numbers with a backward error of 3 n u |L||U|. Its rows sum to 21 n at most, those of A's
# inverse to 1/(5 n): together 13 n u of the largest x, and three times that of complex numbers. The reference LAPACK
# calls gemm once at least; OpenBLAS's own LAPACK calls what nobody else sees.
solves <- function(routine, is_complex, n) {
  whole <- function(count) sample(-2:2, count, replace = TRUE)
  a <- random(n, n, is_complex, whole) + 8 * n * diag(n)
  x <- random(n, 5, is_complex, whole)
  check(paste(routine, "solve"), solve(a, plain(a, x)), x, 40 * n * u * max(Mod(x)))
  if (netlib) 1 else 0
}

netlib <- grepl("/lapack/", La_library(), fixed = TRUE)
if ("netlib" %in% commandArgs(trailingOnly = TRUE) && !netlib) {
  cat("R finds no reference LAPACK, but", La_library(), "\n")
  quit(status = 77) # counted as skipped
}
set.seed(3)
for (routine in c("dgemm", "zgemm")) {
  is_complex <- routine == "zgemm"
  count <- solves(routine, is_complex, 100)
  for (shape in list(c(40, 50, 60), c(33, 65, 31), c(128, 3, 129)))
    count <- count + products(routine, is_complex, shape[1], shape[2], shape[3])
  cat("products", routine, count, "\n")
}
