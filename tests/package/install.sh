#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Linking TileBLAS from a C program by `cc prog.c -ltileblas`, with every linker here: from an installed prefix that was
# moved elsewhere, and from the build folder. examples.sh has pkg-config and find_package.
. "$(dirname "$0")/common.sh"
skip_if_sanitized "an instrumented library is not installed, and cannot be linked by an ordinary cc"
printf '#include <cblas.h>\nint main(void) { return 0; }\n' | "$CC" -x c - -lopenblas -o "$work/probe" 2>/dev/null ||
  skip "no OpenBLAS to link with (Debian: libopenblas-dev)"
here=$TB_TEST_SOURCE/tests/package

lib=$prefix/$TB_TEST_LIBDIR
include=$prefix/include

# run HOW PROGRAM LIBRARY_FOLDER: the program's answers are right and TileBLAS owned cblas_sgemm.
run() {
  rm -f "$work/report"
  LD_LIBRARY_PATH=$3 TILEBLAS_REPORT=$work/report "$2" >"$work/out" 2>&1 || fail "$1: $(cat "$work/out")"
  [ ! -s "$work/out" ] || fail "$1 printed: $(cat "$work/out")"
  grep -q -x 'tileblas: symbols cblas_sgemm=1' "$work/report" || fail "$1: the report shows no cblas_sgemm=1"
  echo "right: $1"
}

# needs PROGRAM: the libraries that it names itself.
needs() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }

# by_cc HOW LIBRARY_FOLDER OPTION...: as on a system where TileBLAS is installed for everybody.
by_cc() {
  local how=$1 folder=$2
  shift 2
  for client in client client_sgemm_only; do
    rm -f "$work/$client"
    LIBRARY_PATH=$folder C_INCLUDE_PATH=$include "$CC" "$here/$client.c" -ltileblas "$@" -o "$work/$client" ||
      fail "$how: linking $client.c"
    run "$how: $client" "$work/$client" "$folder"
  done
  needs "$work/client" | grep -q '^libopenblas' || fail "$how: cblas_saxpy is not from OpenBLAS"
  ! needs "$work/client_sgemm_only" | grep -q -E '^lib(open|c)?blas' ||
    fail "$how: drags in a BLAS that the program does not call"
}

for linker in bfd gold lld; do
  command -v "ld.$linker" >/dev/null || { echo "no ld.$linker on this machine"; continue; }
  by_cc "cc -ltileblas, installed, ld.$linker" "$lib" "-fuse-ld=$linker"
  by_cc "cc -ltileblas, build folder, ld.$linker" "$TB_TEST_BUILD" "-fuse-ld=$linker"
done
