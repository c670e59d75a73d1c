# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Shared by the tests in this folder, which source it first. Gives them a scratch folder $work, which is removed at the
# end, and the words fail and skip. What ctest sets: TB_TEST_LIBRARY, TB_TEST_SOURCE, TB_TEST_BUILD, TB_TEST_LIBDIR,
# TB_TEST_SANITIZE, CC, CMAKE.
set -eu
export LC_ALL=C
# The tests set the options that they want, and an unknown one would make the library warn.
unset "${!TILEBLAS_@}" LD_PRELOAD
prefix=$TB_TEST_BUILD/tests/package/prefix # the installed tree that prefix.sh makes
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}

skip() { # CMakeLists.txt tells ctest that 77 means skipped
  printf 'skipped: %s\n' "$*"
  exit 77
}

skip_if_sanitized() {
  [ -z "$TB_TEST_SANITIZE" ] || skip "$1"
}

# same WHAT EXPECTED_FILE ACTUAL_FILE
same() {
  diff -u --label "expected: $1" "$2" --label "actual: $1" "$3" || fail "$1 is not as expected"
}
