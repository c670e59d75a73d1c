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

# A matrix times its own transpose: R asks for one triangle, and copies it to the other side.
products_with_itself <- function(m, n) {
  x <- random(m, n, FALSE)
  check("crossprod", crossprod(x), plain(t(x), x), (m + 3) * u * plain(t(abs(x)), abs(x)))
  check("tcrossprod", tcrossprod(x), plain(x, t(x)), (n + 3) * u * plain(abs(x), t(abs(x))))
  2
}

# Cholesky's factor and its inverse, and QR with pivots, by their residuals (Higham, theorems 10.3 and 19.4; constants
# are generous). The reference LAPACK makes them of syrk, trsm, trmm and gemm in blocks of 64 and 32.
factors <- function(n) {
  a <- crossprod(random(2 * n, n, FALSE))
  r <- chol(a)
  check("chol", crossprod(r), a, 3 * (n + 1) * u * plain(t(abs(r)), abs(r)))
  inverse <- chol2inv(r)
  check("chol2inv", a %*% inverse, diag(n), 30 * n * u * plain(abs(a), plain(abs(inverse), plain(abs(a), abs(inverse)))))
  c(dsyrk = 3, dtrsm = 3, dtrmm = 2)
}

orthogonal <- function(routine, is_complex, n) {
  x <- random(2 * n, n, is_complex)
  q <- qr(x, LAPACK = TRUE)
  sizes <- sqrt(colSums(Mod(x)^2))[q$pivot]
  check(paste(routine, "qr"), qr.qy(q, rbind(qr.R(q), matrix(0, n, n))), x[, q$pivot],
        matrix(20 * n * u * sizes, 2 * n, n, byrow = TRUE))
  check(paste(routine, "qr.qty"), qr.qty(q, x[, q$pivot]), rbind(qr.R(q), matrix(0, n, n)),
        matrix(20 * n * u * sizes, 2 * n, n, byrow = TRUE))
  6 # two times at least three
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
  reflected <- orthogonal(routine, is_complex, 80)
  if (netlib) cat("products", if (is_complex) "ztrmm" else "dtrmm", reflected, "\n")
}
count <- sum(products_with_itself(40, 60), products_with_itself(65, 31), products_with_itself(3, 129))
cat("products dsyrk", count, "\n")
blocks <- factors(200)
if (netlib) for (routine in names(blocks)) cat("products", routine, blocks[[routine]], "\n")
