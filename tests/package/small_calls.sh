#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A small call that stays on the CPU costs little more than calling the CPU BLAS directly: counted in instructions, by
# the difference of N and 2 N calls, with the library preloaded and without. `bench/run overhead` has the times.
. "$(dirname "$0")/common.sh"
skip_if_sanitized "the sanitizers' own instructions are no part of the promise"
command -v valgrind >/dev/null || skip "no valgrind to count instructions with"

limit_instructions=150
calls=100
export OPENBLAS_NUM_THREADS=1

"$CC" -O1 -o "$work/small_calls" "$TB_TEST_SOURCE/tests/package/small_calls.c" -lopenblas ||
  skip "no program can be linked with OpenBLAS"

collected() { # PRELOAD CALLS KIND...: instructions of the whole process
  local preload=$1 count=$2
  shift 2
  LD_PRELOAD=$preload valgrind --tool=callgrind --callgrind-out-file=/dev/null "$work/small_calls" "$@" "$count" \
    >"$work/log" 2>&1 || fail "valgrind: $(cat "$work/log")"
  sed -n 's/.*Collected : \([0-9]*\)$/\1/p' "$work/log"
}
each() { # PRELOAD KIND...: instructions of one call
  local preload=$1
  shift
  echo $((($(collected "$preload" $((2 * calls)) "$@") - $(collected "$preload" $calls "$@")) / calls))
}

wrong=0
while read -r kind; do
  # shellcheck disable=SC2086 # a list of words
  direct=$(each "" $kind)
  # shellcheck disable=SC2086
  ours=$(each "$TB_TEST_LIBRARY" $kind)
  echo "$kind: $direct instructions a call without TileBLAS, $((ours - direct)) more with it"
  # Fewer than the arguments take to hand on: then nothing of ours was called.
  [ $((ours - direct)) -gt 20 ] || fail "the count is not to be trusted"
  [ $((ours - direct)) -le $limit_instructions ] || wrong=1
done <<'END'
c c NN heap 8
c r NT heap 64
c r TN variables 1
f - NN heap 8
f - TT variables 32
END
[ $wrong -eq 0 ] || fail "more than $limit_instructions instructions"
