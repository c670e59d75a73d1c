#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What a reader has to take in at a time is bounded: 400 lines a file of src/ and kernels/, 40 lines a function of src/.
# In kernels/ the main loops, tuned by their machine code, are longer.
. "$(dirname "$0")/common.sh"

# too_long FOLDER: prints what is.
too_long() {
  find "$1" -name '*.[ch]' | sort | while read -r file; do
    awk -v file="${file#"$1"/}" '
      # A definition begins in the first column and opens its brace at a line'"'"'s end, perhaps some lines later.
      /^[A-Za-z_]/ { from = FNR }
      /\{$/ && from && !inside && (FNR == from || !/[;=]/) { start = FNR; inside = 1 }
      /^}/ { if (inside && FNR - start - 1 > 40) print file ":" from ": a function of " FNR - start - 1 " lines"; inside = from = 0 }
      /;$/ && !inside { from = 0 }
      END { if (FNR > 400) print file ": " FNR " lines" }' "$file"
  done
}

# The check sees both, or it is blind.
{ printf 'static int f(int a,\n             int b) {\n'; yes '  a += b;' | head -n 41; printf '}\n'; } >"$work/function.c"
yes '' | head -n 401 >"$work/file.h"
[ "$(too_long "$work" | wc -l)" -eq 2 ] || fail "the check finds no function of 41 lines, or no file of 401: $(too_long "$work")"

too_long "$TB_TEST_SOURCE/src" >"$work/found"
find "$TB_TEST_SOURCE/kernels" -type f ! -name '*.md' -exec awk 'END { if (FNR > 400) print FILENAME ": " FNR " lines" }' {} \; \
  >>"$work/found"
[ ! -s "$work/found" ] || fail "too long: $(cat "$work/found")"
echo "$(find "$TB_TEST_SOURCE/src" -name '*.[ch]' | wc -l) files of at most 400 lines, functions of at most 40"
