#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The installed tileblas(7) has every option of src/base/options.def, each once, and groff has nothing to complain of.
# Seen to fail when: a row is left out, or a line of the page begins with a macro that does not exist.
. "$(dirname "$0")/common.sh"
skip_if_sanitized "an instrumented library is not installed"
page=$prefix/share/man/man7/tileblas.7
[ -s "$page" ] || fail "no page"
printf '#define TB_OPTION(id, name, ...) name\n#include "base/options.def"\n' | "$CC" -E -P -I "$TB_TEST_SOURCE/src" - |
  tr -d '"' | sed '/^ *$/d' | sort >"$work/expected"
sed -n 's/^\.B \(TILEBLAS_[A-Z_]*\)$/\1/p' "$page" | sort >"$work/found"
[ -s "$work/expected" ] || fail "found no options"
same "the list of options in tileblas(7)" "$work/expected" "$work/found"
grep -q "TileBLAS $(sed -n 's/^Version: //p' "$prefix/$TB_TEST_LIBDIR/pkgconfig/tileblas.pc")" "$page" || fail "the version"
command -v groff >/dev/null || { echo "no groff on this machine: the page's form was not looked at"; exit 0; }
groff -man -Tutf8 -ww "$page" >"$work/text" 2>"$work/warnings" || fail "groff"
[ ! -s "$work/warnings" ] || fail "groff: $(cat "$work/warnings")"
