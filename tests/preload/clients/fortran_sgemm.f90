! SPDX-License-Identifier: BSD-3-Clause
! A Fortran program that calls sgemm as Fortran does: everything by address, hidden lengths of the letters last.
! Checked against double precision with the bound of a k-term sum. Prints "products N".
program fortran_sgemm
  implicit none
  integer, parameter :: m = 45, n = 33, k = 70, dp = kind(1d0)
  real, parameter :: alpha = -1.5, beta = 0.5
  character, parameter :: letters(6) = ['N', 'T', 'C', 'n', 't', 'c']
  real :: a(m, k), b(k, n), c(m, n), before(m, n), at(k, m), bt(n, k)
  real(dp) :: expected(m, n), bound(m, n)
  integer :: i, j
  external :: sgemm

  call random_number(a)
  call random_number(b)
  call random_number(before)
  a = 2 * a - 1
  b = 2 * b - 1
  at = transpose(a)
  bt = transpose(b)
  expected = alpha * matmul(real(a, dp), real(b, dp)) + beta * real(before, dp)
  bound = 2d0**(-24) * ((k + 3) * 1.5d0 * matmul(abs(real(a, dp)), abs(real(b, dp))) + 3 * 0.5d0 * abs(before))
  do i = 1, 6
    do j = 1, 6
      c = before
      if (mod(i, 3) == 1 .and. mod(j, 3) == 1) then
        call sgemm(letters(i), letters(j), m, n, k, alpha, a, m, b, k, beta, c, m)
      else if (mod(i, 3) == 1) then
        call sgemm(letters(i), letters(j), m, n, k, alpha, a, m, bt, n, beta, c, m)
      else if (mod(j, 3) == 1) then
        call sgemm(letters(i), letters(j), m, n, k, alpha, at, k, b, k, beta, c, m)
      else
        call sgemm(letters(i), letters(j), m, n, k, alpha, at, k, bt, n, beta, c, m)
      end if
      if (.not. all(abs(real(c, dp) - expected) <= bound)) then
        print *, 'wrong: ', letters(i), letters(j)
        stop 1
      end if
    end do
  end do
  print '(a)', 'products 36'
end program
