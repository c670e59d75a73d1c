#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The library is built as SECURITY.md says: tables of addresses are read-only after load, no memory is both writable and
# executable, and stack and buffers are checked. Seen to fail on files linked with norelro, lazy, execstack and noseparate-code,
# and on one without stack protector.
. "$(dirname "$0")/common.sh"
readelf -dW "$TB_TEST_LIBRARY" >"$work/dynamic"
readelf -lW "$TB_TEST_LIBRARY" >"$work/segments"
nm -D --undefined-only "$TB_TEST_LIBRARY" >"$work/imports"
grep -q GNU_RELRO "$work/segments" || fail "no RELRO"
grep -qE 'FLAGS.*BIND_NOW|FLAGS_1.*NOW' "$work/dynamic" || fail "not bound at load: RELRO leaves the table of addresses out"
grep -q 'GNU_STACK .* RW ' "$work/segments" || fail "the stack would be executable: $(grep GNU_STACK "$work/segments")"
! grep -q TEXTREL "$work/dynamic" || fail "relocations in the code"
! grep -qE '^ *LOAD .* (RWE|WE) ' "$work/segments" || fail "a segment is writable and executable"
[ "$(grep -cE '^ *LOAD .* R E ' "$work/segments")" -eq 1 ] || fail "no segment of code alone"
[ "$(grep -E '^ *LOAD ' "$work/segments" | head -n 1 | grep -c ' R E ')" -eq 0 ] || fail "headers and data are executable"
[ -z "$TB_TEST_SANITIZE" ] || { echo "right, but for what sanitizers check"; exit 0; }
grep -q ' __stack_chk_fail' "$work/imports" || fail "no stack protector"
[ "${TB_TEST_COVERAGE:-OFF}" = OFF ] || { echo "right, but for what wants optimisation"; exit 0; }
grep -qE ' __(memcpy|snprintf|vsnprintf|read|strcpy)_chk' "$work/imports" || fail "no _FORTIFY_SOURCE"
