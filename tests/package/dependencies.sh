#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The library needs the C library, and nothing else: it must load wherever a program runs.
. "$(dirname "$0")/common.sh"
skip_if_sanitized "the sanitizers' runtime libraries are needed too"

ldd "$TB_TEST_LIBRARY" >"$work/ldd" || fail "ldd"
sed -e 's/^[[:space:]]*//' -e 's/ .*//' -e 's,.*/,,' "$work/ldd" | sort >"$work/found"
grep -q -x 'libc.so.6' "$work/found" || fail "ldd names no libc: $(cat "$work/ldd")"
others=$(grep -v -x -E 'linux-vdso\.so\.1|libc\.so\.6|ld-linux[^/]*\.so\.[0-9]+' "$work/found" || true)
[ -z "$others" ] || fail "needed besides libc: $others"

# No path from the machine that built it may decide which libraries it finds.
! readelf -d "$TB_TEST_LIBRARY" | grep -E 'RPATH|RUNPATH' || fail "the library carries a search path"
soname=$(readelf -d "$TB_TEST_LIBRARY" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
[ "$soname" = libtileblas.so.0 ] || fail "SONAME is '$soname'"
