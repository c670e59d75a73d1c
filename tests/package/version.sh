#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# One version: the header's macros, the library, the pkg-config and CMake files and the newest entry of CHANGELOG.md agree.
# Seen to fail when: CHANGELOG.md has another.
. "$(dirname "$0")/common.sh"
cat >"$work/version.c" <<'END'
#include <stdio.h>
#include <string.h>
#include "tileblas.h"
int main(void) {
  char text[32];
  snprintf(text, sizeof text, "%d.%d.%d", TILEBLAS_VERSION / 10000, TILEBLAS_VERSION / 100 % 100, TILEBLAS_VERSION % 100);
  if (strcmp(text, TILEBLAS_VERSION_STRING) != 0 || strcmp(text, tileblas_version()) != 0) {
    printf("%s, %s, %s\n", text, TILEBLAS_VERSION_STRING, tileblas_version());
    return 1;
  }
  return puts(text) < 0;
}
END
"$CC" -I "$TB_TEST_SOURCE/include" "$work/version.c" "$TB_TEST_LIBRARY" -o "$work/version" || fail "linking"
version=$(LD_LIBRARY_PATH=$(dirname "$TB_TEST_LIBRARY") "$work/version") || fail "macros and library: $version"
grep -q -x "Version: $version" "$TB_TEST_BUILD/tileblas.pc" || fail "tileblas.pc has not $version"
grep -q "set(PACKAGE_VERSION \"$version\")" "$TB_TEST_BUILD/tileblasConfigVersion.cmake" || fail "CMake has not $version"
newest=$(sed -n 's/^## \[\([0-9.]*\)\].*/\1/p' "$TB_TEST_SOURCE/CHANGELOG.md" | head -n 1)
[ "$newest" = "$version" ] || fail "CHANGELOG.md's newest version is '$newest', the library's $version"
