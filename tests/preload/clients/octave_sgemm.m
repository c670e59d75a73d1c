% SPDX-License-Identifier: BSD-3-Clause
% Products of single() matrices in Octave, each checked against double() with the bound of a k-term sum in fp32.
% Prints "products N", or exits with 1 at the first wrong one.
u = 2^-24;
count = 0;
rand ("twister", 1);
shapes = [40 50 60; 33 65 31; 128 3 129];
for s = 1:rows (shapes)
  m = shapes(s, 1); n = shapes(s, 2); k = shapes(s, 3);
  a = single (2 * rand (m, k) - 1);
  b = single (2 * rand (k, n) - 1);
  at = a.';
  bt = b.';
  forms = {a * b, at.' * b, a * bt.', at.' * bt.'};
  expected = double (a) * double (b);
  bound = (k + 3) * u * (abs (double (a)) * abs (double (b)));
  for f = 1:numel (forms)
    wrong = abs (double (forms{f}) - expected);
    if (! isa (forms{f}, "single") || ! all (all (wrong <= bound)))
      printf ("form %d of %dx%dx%d: error %g, bound %g\n", f, m, n, k, max (wrong(:)), max (bound(:)));
      exit (1);
    endif
    count++;
  endfor
endfor
printf ("products %d\n", count);
