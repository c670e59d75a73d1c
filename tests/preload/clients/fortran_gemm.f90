! SPDX-License-Identifier: BSD-3-Clause
! A Fortran program that calls the four gemm as Fortran does: everything by address, hidden lengths of the letters last.
! Checked against more than double precision with the bound of a sum of k terms. Prints a line "products ROUTINE N" for
! each type.
program fortran_gemm
  implicit none
  integer, parameter :: sp = kind(1e0), dp = kind(1d0), wide = selected_real_kind(18)
  integer, parameter :: m = 45, n = 33, k = 70, ld = 77
  character, parameter :: letters(6) = ['N', 'T', 'C', 'n', 't', 'c']
  character(5), parameter :: routines(4) = ['sgemm', 'dgemm', 'cgemm', 'zgemm']
  complex(dp) :: alpha, beta, a(m, k), b(k, n), before(m, n)
  complex(wide) :: expected(m, n)
  real(wide) :: bound(m, n)
  integer :: r, i, j

  do r = 1, 4
    call prepare(routines(r))
    do i = 1, 6
      do j = 1, 6
        if (.not. all(abs(product_of(routines(r), letters(i), letters(j)) - expected) <= bound)) then
          print *, 'wrong: ', routines(r), ' ', letters(i), letters(j)
          stop 1
        end if
      end do
    end do
    print '(a)', 'products '//routines(r)//' 36'
  end do

contains

  ! Operands of the routine's type, with what they give and by how much a product may be off.
  subroutine prepare(routine)
    character(5), intent(in) :: routine
    real(wide) :: half_eps
    integer :: of_product, of_c
    logical :: is_complex
    is_complex = scan(routine(1:1), 'cz') == 1
    alpha = merge((-1.5d0, 0.25d0), (-1.5d0, 0d0), is_complex)
    beta = merge((0.5d0, -1d0), (0.5d0, 0d0), is_complex)
    call fill(a, routine)
    call fill(b, routine)
    call fill(before, routine)
    expected = alpha * matmul(cmplx(a, kind=wide), cmplx(b, kind=wide)) + beta * cmplx(before, kind=wide)
    ! Two parts of 2k terms each, together sqrt(2) 2k < 3k roundings; a complex alpha or beta is worth three of them.
    of_product = merge(3 * k + 8, k + 3, is_complex)
    of_c = merge(5, 3, is_complex)
    half_eps = merge(real(epsilon(1e0), wide), real(epsilon(1d0), wide), scan(routine(1:1), 'sc') == 1) / 2
    bound = of_product * abs(alpha) * matmul(abs(cmplx(a, kind=wide)), abs(cmplx(b, kind=wide)))
    bound = half_eps * (bound + of_c * abs(beta) * abs(cmplx(before, kind=wide)))
  end subroutine

  ! Random numbers that the routine's type has.
  subroutine fill(x, routine)
    complex(dp), intent(out) :: x(:, :)
    character(5), intent(in) :: routine
    real(dp) :: parts(size(x, 1), size(x, 2), 2)
    call random_number(parts)
    parts = 2 * parts - 1
    if (scan(routine(1:1), 'sd') == 1) parts(:, :, 2) = 0
    if (scan(routine(1:1), 'sc') == 1) parts = real(parts, sp)
    x = cmplx(parts(:, :, 1), parts(:, :, 2), dp)
  end subroutine

  ! What has to lie in memory for a letter to make x of it.
  function stored(x, letter)
    complex(dp), intent(in) :: x(:, :)
    character, intent(in) :: letter
    complex(dp) :: stored(ld, ld)
    stored = 0
    select case (letter)
    case ('N', 'n')
      stored(:size(x, 1), :size(x, 2)) = x
    case ('T', 't')
      stored(:size(x, 2), :size(x, 1)) = transpose(x)
    case default
      stored(:size(x, 2), :size(x, 1)) = conjg(transpose(x))
    end select
  end function

  function product_of(routine, ta, tb) result(c)
    character(5), intent(in) :: routine
    character, intent(in) :: ta, tb
    complex(dp) :: c(m, n), x(ld, ld), y(ld, ld)
    real(sp) :: sc(m, n)
    real(dp) :: dc(m, n)
    complex(sp) :: cc(m, n)
    external :: sgemm, dgemm, cgemm, zgemm
    x = stored(a, ta)
    y = stored(b, tb)
    select case (routine)
    case ('sgemm')
      sc = real(before, sp)
      call sgemm(ta, tb, m, n, k, real(alpha, sp), real(x, sp), ld, real(y, sp), ld, real(beta, sp), sc, m)
      c = sc
    case ('dgemm')
      dc = real(before, dp)
      call dgemm(ta, tb, m, n, k, real(alpha, dp), real(x, dp), ld, real(y, dp), ld, real(beta, dp), dc, m)
      c = dc
    case ('cgemm')
      cc = cmplx(before, kind=sp)
      call cgemm(ta, tb, m, n, k, cmplx(alpha, kind=sp), cmplx(x, kind=sp), ld, cmplx(y, kind=sp), ld, &
                 cmplx(beta, kind=sp), cc, m)
      c = cc
    case ('zgemm')
      c = before
      call zgemm(ta, tb, m, n, k, alpha, x, ld, y, ld, beta, c, m)
    end select
  end function
end program
