#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# No test leaves a case out in silence: cmocka's skip() exits with 0, so only TST_LEAVE_OUT calls it (support/process.h), and
# a program that says TST_LEAVE_OUT returns tst_result. Seen to fail when: a test calls skip(), or forgets tst_result.
. "$(dirname "$0")/common.sh"
cd "$TB_TEST_SOURCE/tests"
bad=0
for file in $(grep -rlE '(^|[^_[:alnum:]])skip\(\)' --include='*.c' --include='*.cpp' .); do
  echo "$file: skip() is counted as passed; TST_LEAVE_OUT (support/process.h) is not"
  bad=1
done
for file in $(grep -rl 'TST_LEAVE_OUT(' --include='*.c' .); do
  grep -q 'tst_result(' "$file" || { echo "$file: leaves something out, and its main does not return tst_result" && bad=1; }
done
# The lines behind "#ifdef __SANITIZE_ADDRESS__" may not be a bare return from a case.
for file in $(grep -rl '__SANITIZE_ADDRESS__' --include='*.c' .); do
  if grep -A1 '__SANITIZE_ADDRESS__' "$file" | grep -qE '^ *return;'; then
    echo "$file: a case returns under a sanitizer without a word"
    bad=1
  fi
done
exit $bad
