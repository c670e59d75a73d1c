% SPDX-License-Identifier: BSD-3-Clause
% Products of Octave's matrices in four types, each checked against sums in more than double with the bound of a sum of
% k terms. Prints a line "products ROUTINE N" for each type, or exits with 1 at the first wrong one.
1;

% A product that asks no BLAS.
function c = plain (a, b)
  c = zeros (rows (a), columns (b));
  for i = 1:rows (a)
    c(i, :) = sum (a(i, :).' .* b, 1);
  endfor
endfunction

% A product of elements of size 1 at most, as good as rounded once: high parts have 21 bits behind the point, so that
% all their products and sums are exact; what they leave is too small for its roundings to count.
function c = wide (a, b)
  a1 = round (a * 2^21) / 2^21;
  b1 = round (b * 2^21) / 2^21;
  c = plain (a1, b1) + (plain (a1, b - b1) + plain (a - a1, b));
endfunction

function x = random (rows, columns, of_type, is_complex)
  x = 2 * rand (rows, columns) - 1;
  if (is_complex)
    x = complex (x, 2 * rand (rows, columns) - 1);
  endif
  x = of_type (x);
endfunction

function check (name, got, expected, bound)
  wrong = abs (double (got) - expected);
  if (! all (all (wrong <= bound)))
    printf ("%s: error %g, bound %g\n", name, max (wrong(:)), max (bound(:)));
    exit (1);
  endif
endfunction

function count = products (routine, of_type, is_complex, m, n, k)
  a = random (m, k, of_type, is_complex);
  b = random (k, n, of_type, is_complex);
  at = a.'; bt = b.'; ac = a'; bc = b';
  forms = {a * b, at.' * b, a * bt.', at.' * bt.', ac' * b, a * bc', ac' * bc'};
  expected = wide (double (a), double (b));
  terms = k + 4;
  if (is_complex)
    terms = 3 * k + 4; % two parts of 2 k terms each, together sqrt (2) 2 k < 3 k roundings
  endif
  bound = terms * double (eps (of_type (1))) / 2 * plain (abs (double (a)), abs (double (b)));
  for f = 1:numel (forms)
    if (! isa (forms{f}, class (a)))
      printf ("%s: form %d is of type %s\n", routine, f, class (forms{f}));
      exit (1);
    endif
    check (sprintf ("%s, form %d of %dx%dx%d", routine, f, m, n, k), forms{f}, expected, bound);
  endfor
  count = numel (forms);
endfunction

rand ("twister", 1);
types = {"sgemm", @single, false; "dgemm", @double, false; "cgemm", @single, true; "zgemm", @double, true};
shapes = [40 50 60; 33 65 31; 128 3 129];
for t = 1:rows (types)
  count = 0;
  for s = 1:rows (shapes)
    count += products (types{t, :}, shapes(s, 1), shapes(s, 2), shapes(s, 3));
  endfor
  printf ("products %s %d\n", types{t, 1}, count);
endfor
