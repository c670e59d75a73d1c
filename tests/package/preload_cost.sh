#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Preloaded into a program that makes no BLAS call, the library prints nothing and does next to nothing. Counted in
# instructions, which do not depend on what else the machine does, against libraries preloaded in the same way: an empty one,
# and one that only imports the same names, so that the loader's own work for any such library is not charged to ours.
. "$(dirname "$0")/common.sh"
skip_if_sanitized "the sanitizers start up in every program"

# What the library does itself: some 10 microseconds; the loader spends three times that on /bin/true alone.
limit_instructions=32000
# With the loader's look-up of every name that it imports, which is done at load so that the table can be made read-only
# (BIND_NOW, SECURITY.md): some 650 instructions a name.
limit_with_binding=150000

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
nm -D --undefined-only "$TB_TEST_LIBRARY" | awk '{ sub("@.*", "", $2); print $2 }' | grep -v -e '^__gmon' -e '^_ITM' >"$work/names"
[ "$(wc -l <"$work/names")" -gt 50 ] || fail "found no imported names"
awk '{ print "extern char name" NR "[] __asm__(\"" $1 "\") __attribute__((weak));" }
  END { print "void *names[] = {"; for (i = 1; i <= NR; i++) print "name" i ","; print "};" }' "$work/names" >"$work/importing.c"
"$CC" -shared -fPIC -Wl,-z,now -o "$work/libimporting.so" "$work/importing.c" || fail "cannot build a library that imports"
none=$(instructions "")
empty=$(instructions "$work/libempty.so")
importing=$(instructions "$work/libimporting.so")
ours=$(instructions "$TB_TEST_LIBRARY")
echo "instructions of /bin/true: $none; with an empty library preloaded: $empty; with one that imports our names:" \
  "$importing; with TileBLAS: $ours"
{ [ "$empty" -gt "$none" ] && [ "$importing" -gt "$empty" ]; } || fail "the count is not to be trusted"
[ $((ours - importing)) -le "$limit_instructions" ] ||
  fail "$((ours - importing)) instructions more than a library with the same imports; $limit_instructions are allowed"
[ $((ours - empty)) -le "$limit_with_binding" ] ||
  fail "$((ours - empty)) instructions more than an empty library; $limit_with_binding are allowed"
