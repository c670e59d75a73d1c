#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# CPack's .deb and .tar.gz hold the same files, at the places where each belongs, and the library in them is the one
# built.
. "$(dirname "$0")/common.sh"
skip_if_sanitized "an instrumented library is not packaged"
command -v cpack >/dev/null || skip "no cpack"
command -v dpkg-deb >/dev/null || skip "no dpkg-deb"

(cd "$work" && cpack --config "$TB_TEST_BUILD/CPackConfig.cmake" -B "$work/packed") >"$work/cpack.log" 2>&1 ||
  fail "cpack: $(cat "$work/cpack.log")"
deb=$(echo "$work"/packed/*.deb)
tar=$(echo "$work"/packed/*.tar.gz)

{
  (cd "$TB_TEST_SOURCE" && find docs -name '*.md' -printf 'share/doc/tileblas/%p\n')
  cat <<END
include/tileblas.h
$TB_TEST_LIBDIR/cmake/tileblas/tileblasConfig.cmake
$TB_TEST_LIBDIR/cmake/tileblas/tileblasConfigVersion.cmake
$TB_TEST_LIBDIR/cmake/tileblas/tileblasTargets.cmake
$TB_TEST_LIBDIR/cmake/tileblas/tileblasTargets-release.cmake
$TB_TEST_LIBDIR/libtileblas.so
$TB_TEST_LIBDIR/libtileblas.so.0
$TB_TEST_LIBDIR/pkgconfig/tileblas.pc
share/doc/tileblas/CHANGELOG.md
share/doc/tileblas/README.md
share/doc/tileblas/copyright
share/man/man7/tileblas.7
END
} | sort >"$work/expected"
mkdir "$work/tar" "$work/deb" "$work/control"
tar -xzf "$tar" -C "$work/tar" --strip-components=1
dpkg-deb -x "$deb" "$work/deb"
dpkg-deb -e "$deb" "$work/control"
(cd "$work/tar" && find . -type f -printf '%P\n' | sort) >"$work/in_tar"
(cd "$work/deb/usr" && find . -type f -printf '%P\n' | sort) >"$work/in_deb"
same "the files in the .tar.gz" "$work/expected" "$work/in_tar"
same "the files in the .deb, below /usr" "$work/expected" "$work/in_deb"
grep -q -x 'activate-noawait ldconfig' "$work/control/triggers" || fail "the .deb does not ask for ldconfig"

# Packing strips the debugging information; what the program runs must be the same.
objcopy -O binary --only-section=.text "$TB_TEST_LIBRARY" "$work/text_built"
objcopy -O binary --only-section=.text "$work/deb/usr/$TB_TEST_LIBDIR/libtileblas.so.0" "$work/text_packed"
[ -s "$work/text_built" ] || fail "objcopy found no code"
cmp "$work/text_built" "$work/text_packed" || fail "the packed library is another one"
