#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The library exports the rows of src/blas/symbols.def and the functions of include/tileblas.h, and nothing else: a symbol too
# many would take calls away from the program's own libraries.
. "$(dirname "$0")/common.sh"

{
  printf '#define TB_CBLAS(type, signature, routine, integer, symbol) symbol\n#define TB_FORTRAN(type, signature, routine, integer, symbol) symbol\n'
  printf '#include "blas/symbols.def"\n'
} | "$CC" -E -P -I "$TB_TEST_SOURCE/src" - | tr ' ' '\n' >"$work/blas"
# The header's functions as the compiler sees them: each follows the attribute that exports it.
printf '#include "tileblas.h"\n' | "$CC" -E -P -I "$TB_TEST_SOURCE/include" - | tr '\n' ' ' |
  grep -o 'visibility("default"))) [^(;]*(' | sed 's/.*[ *]\(tileblas_[a-z_]*\)($/\1/' >"$work/own"
[ "$(wc -l <"$work/own")" -gt 0 ] || fail "found no function in include/tileblas.h"
grep -q -v '^tileblas_' "$work/own" && fail "a public function without the prefix: $(cat "$work/own")"
sed '/^ *$/d' "$work/blas" "$work/own" | sort >"$work/expected"
[ -z "$(uniq -d "$work/expected")" ] || fail "listed twice: $(uniq -d "$work/expected")"

nm -D --defined-only --format=posix "$TB_TEST_LIBRARY" | cut -d ' ' -f 1 | sed 's/@.*//' | sort >"$work/exported"
if [ -n "$TB_TEST_SANITIZE" ]; then # the sanitizers export their own bookkeeping
  sed -i '/^__\(asan\|odr_asan\|ubsan\)/d' "$work/exported"
fi
same "the list of exported symbols" "$work/expected" "$work/exported"
