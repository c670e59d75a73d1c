#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The table in docs/options.md is the one that options.def makes. And the check sees a difference when there is one.
. "$(dirname "$0")/common.sh"
tool=$TB_TEST_SOURCE/tools/options-table

printf '%s\n' before '<!-- options:begin -->' '| old |' '<!-- options:end -->' after >"$work/readme.md"
! "$tool" --check "$work/readme.md" >/dev/null 2>&1 || fail "an old table was taken for the current one"
"$tool" --update "$work/readme.md"
"$tool" --check "$work/readme.md" || fail "the table just written is not taken for the current one"
[ "$(sed -n '1p;$p' "$work/readme.md" | tr '\n' ' ')" = "before after " ] || fail "text around the table was changed"

rows=$("$tool" | grep -c '^| `TILEBLAS_')
[ "$rows" -eq "$(grep -c '^TB_OPTION(' "$(find "$TB_TEST_SOURCE/src" -name options.def)")" ] || fail "the table has $rows rows"
"$tool" --check || fail "docs/options.md"
