#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# README's install lines on a machine with cmake, ninja and gcc alone: no C++ and Fortran compiler, no cmocka, no nvcc. The
# preset and a plain `cmake -B build` build the library and no test. Seen to fail when: LANGUAGES has CXX, or tests are built
# unasked.
. "$(dirname "$0")/common.sh"
mkdir "$work/bin" "$work/empty"
for tool in cmake ninja gcc cc as ld ar ranlib strip nm objcopy objdump readelf sh bash env; do
  ! command -v "$tool" >/dev/null || ln -s "$(command -v "$tool")" "$work/bin/"
done
ninja=$(command -v ninja) || skip "no ninja"
cp -r "$TB_TEST_SOURCE"/{CMakeLists.txt,CMakePresets.json,LICENSE,README.md,CHANGELOG.md,cmake,docs,include,kernels,src,tools} \
  "$work/empty/" # neither tests nor bench are there
bare() {
  env -i PATH="$work/bin" HOME="$work" CC=gcc CXX=/nonexistent/c++ FC=/nonexistent/fortran CUDACXX=/nonexistent/nvcc \
    PKG_CONFIG_LIBDIR="$work/bin" CCACHE_DISABLE=1 "$@" >"$work/log" 2>&1 || fail "$*: $(tail -n 30 "$work/log")"
}
cd "$work/empty"
# A machine that has nvcc is to look as if it had not.
bare cmake --preset user -DTILEBLAS_NVCC=/nonexistent/nvcc -DCMAKE_MAKE_PROGRAM="$ninja"
[ "$(grep -c 'no kernels' "$work/log")" -eq 1 ] || fail "the kernels' absence is not one line: $(cat "$work/log")"
bare cmake --build --preset user -j 2
bare cmake --install build/user --prefix "$work/prefix"
[ -f "$work/prefix/$TB_TEST_LIBDIR/libtileblas.so.0" ] || fail "no library is installed"
targets=$(ninja -C build/user -t targets all | grep -c '\.c\.o:') # of objects
[ "$targets" -le $(($(find src -name '*.c' | wc -l) + 1)) ] || fail "$targets objects: more than the library"
bare cmake -G Ninja -B build/plain -DTILEBLAS_CUDA=OFF -DCMAKE_MAKE_PROGRAM="$ninja"
[ "$(grep -c 'no kernels' "$work/log")" -eq 1 ] || fail "TILEBLAS_CUDA=OFF: not one line: $(cat "$work/log")"
grep -q '^CMAKE_BUILD_TYPE:STRING=Release$' build/plain/CMakeCache.txt || fail "a plain build is not optimised"
