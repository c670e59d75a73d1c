#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Preloaded into a program that makes no BLAS call, the library prints nothing and does next to nothing. Counted in
# instructions, which do not depend on what else the machine does, against an empty library preloaded in the same way, so
# that the loader's own work for any library is not charged to ours.
. "$(dirname "$0")/common.sh"
skip_if_sanitized "the sanitizers start up in every program"

limit_instructions=50000 # some 15 microseconds; the loader spends more than twice that on /bin/true alone

LD_PRELOAD=$TB_TEST_LIBRARY /bin/true >"$work/out" 2>&1 || fail "/bin/true failed"
[ ! -s "$work/out" ] || fail "printed: $(cat "$work/out")"

command -v valgrind >/dev/null || skip "no valgrind to count instructions with; nothing was printed"
instructions() { # with LIBRARY preloaded
  LD_PRELOAD=$1 valgrind --tool=callgrind --callgrind-out-file="$work/callgrind" /bin/true >"$work/log" 2>&1 ||
    fail "valgrind: $(cat "$work/log")"
  sed -n 's/.*Collected : \([0-9]*\)$/\1/p' "$work/log"
}
: >"$work/empty.c"
"$CC" -shared -fPIC -o "$work/libempty.so" "$work/empty.c"
none=$(instructions "")
empty=$(instructions "$work/libempty.so")
ours=$(instructions "$TB_TEST_LIBRARY")
echo "instructions of /bin/true: $none; with an empty library preloaded: $empty; with TileBLAS: $ours"
[ "$empty" -gt "$none" ] || fail "the count is not to be trusted"
[ $((ours - empty)) -le "$limit_instructions" ] ||
  fail "$((ours - empty)) instructions more than an empty library; $limit_instructions are allowed"
