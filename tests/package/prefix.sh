#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs the library, once for all tests that want an installed tree, and moves the tree: nothing may remember where it
# was installed.
. "$(dirname "$0")/common.sh"
skip_if_sanitized "an instrumented library is not installed"

rm -rf "$prefix" "$prefix.first"
"$CMAKE" --install "$TB_TEST_BUILD" --prefix "$prefix.first" >"$work/install.log" || fail "cmake --install"
mv "$prefix.first" "$prefix"
for file in "$TB_TEST_LIBDIR"/{libtileblas.so.0,libtileblas.so,pkgconfig/tileblas.pc,cmake/tileblas/tileblasConfig.cmake} \
  include/tileblas.h share/man/man7/tileblas.7 share/doc/tileblas/{copyright,README.md,CHANGELOG.md,docs/guest.md}; do
  [ -f "$prefix/$file" ] || fail "$file is not installed"
done
