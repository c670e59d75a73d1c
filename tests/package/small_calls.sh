#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A small call that stays on the CPU costs little more than calling the CPU BLAS directly: counted in instructions, with
# the library preloaded and without, of the same calls. One process makes the calls of all kinds, and has its counts
# written down ahead of each kind and behind it. `bench/run overhead` has the times.
#
# Seen to fail when: a complex call's scalars are copied before they are handed on; small calls of one element type go
# the long way; the library is not preloaded (the count is not to be trusted).
. "$(dirname "$0")/common.sh"
skip_if_sanitized "the sanitizers' own instructions are no part of the promise"
command -v valgrind >/dev/null || skip "no valgrind to count instructions with"

limit_instructions=150
calls=100
export OPENBLAS_NUM_THREADS=1

"$CC" -O1 -o "$work/small_calls" "$TB_TEST_SOURCE/tests/package/small_calls.c" -lopenblas ||
  skip "no program can be linked with OpenBLAS"

kinds=(
  "cblas_sgemm c NN heap 8"
  "cblas_sgemm r NT heap 64"
  "cblas_sgemm r TN variables 1"
  "sgemm_ - NN heap 8"
  "sgemm_ - TT variables 32"
  "cblas_dgemm r NT variables 8"
  "dgemm_ - TN heap 8"
  "cblas_cgemm c NT heap 8"
  "cgemm_ - NN variables 1"
  "cblas_zgemm r TN variables 8"
  "zgemm_ - NT heap 8"
  "cblas_cgemm3m r NN heap 8"
  "cgemm3m_ - TT variables 8"
  "cblas_zgemm3m c TN variables 1"
  "zgemm3m_ - NN heap 8"
  "cblas_dsyrk r NN heap 8"
  "cblas_csyrk c TN variables 1"
  "cblas_cherk r CN heap 8"
  "ssyrk_ - NN heap 8"
  "zherk_ - CN variables 8"
  "cblas_ssyr2k r NN heap 8"
  "cblas_zher2k c CN variables 1"
  "dsyr2k_ - TN heap 8"
  "cblas_ssymm c NN heap 8"
  "cblas_zhemm r NN variables 1"
  "dsymm_ - NN heap 8"
  "chemm_ - NN variables 8"
  "cblas_dtrsm r TN heap 8"
  "cblas_ctrmm c CN variables 1"
  "strmm_ - NN heap 8"
  "ztrsm_ - TN variables 8"
)

# Profile 2 i of a run is what ran between the two marks of kind i, counted from 1.
collect() { # PRELOAD NAME: makes $work/NAME.1, .2 and so on
  LD_PRELOAD=$1 valgrind --tool=callgrind --callgrind-out-file="$work/$2" --dump-before=mark \
    "$work/small_calls" $calls "${kinds[@]}" >"$work/log" 2>&1 || fail "valgrind: $(cat "$work/log")"
}
each() { # NAME KIND: instructions of one call
  local total
  total=$(sed -n 's/^totals: \([0-9]*\)$/\1/p' "$work/$1.$((2 * $2))")
  [ -n "$total" ] || fail "no count of ${kinds[$2 - 1]}: $(ls "$work")"
  echo $((total / calls))
}
collect "" direct
collect "$TB_TEST_LIBRARY" ours

wrong=0
for ((i = 1; i <= ${#kinds[@]}; i++)); do
  direct=$(each direct $i) || exit 1
  more=$(($(each ours $i) - direct))
  echo "${kinds[i - 1]}: $direct instructions a call without TileBLAS, $more more with it"
  # Fewer than the arguments take to hand on: then nothing of ours was called.
  [ $more -gt 20 ] || fail "the count is not to be trusted"
  [ $more -le $limit_instructions ] || wrong=1
done
[ $wrong -eq 0 ] || fail "more than $limit_instructions instructions"
