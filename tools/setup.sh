# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# What tests/run and bench/demo share: finding out what this machine lacks, and getting it. Sourced by bash, from the
# repository's root, under `set -eu`. Everything outside Debian's packages goes below build/. Nothing is fetched, and no
# network is needed, when everything is there already.

tb_venv=build/venv
tb_nvcc_dir=build/nvcc

# Every line of our own carries this mark, so that it stands out among the lines of cmake, ninja and ctest.
tb_say() { printf '== %s\n' "$*"; }

tb_have() { command -v "$1" >/dev/null 2>&1; }

tb_cmake_is_new_enough() {
  tb_have cmake || return 1
  local version
  version=$(cmake --version | sed -n '1s/.*version \([0-9.]*\).*/\1/p')
  [ "$(printf '3.25\n%s\n' "$version" | sort -V | head -n 1)" = 3.25 ]
}

tb_links() { # can a C program be linked with this library?
  tb_have cc && echo 'int main(void) { return 0; }' | cc -x c - -o /dev/null "-l$1" 2>/dev/null
}

# Succeeds when what we want from a Debian package is on the machine, wherever it came from.
tb_package_is_there() {
  case $1 in
  cmake) tb_cmake_is_new_enough ;;
  ninja-build) tb_have ninja ;;
  gcc) tb_have gcc && tb_have cc ;;
  libc6-dev) tb_links m ;;
  libopenblas-dev) tb_links openblas ;;
  libcmocka-dev) tb_links cmocka ;;
  clang-format) tb_have clang-format-14 || tb_have clang-format ;;
  # Debian's own interpreter, because its NumPy is one of the clients tested.
  python3-numpy) /usr/bin/python3 -c 'import numpy' 2>/dev/null ;;
  python3-venv) /usr/bin/python3 -c 'import venv, ensurepip' 2>/dev/null ;;
  g++ | gfortran | pkg-config | octave-cli | valgrind) tb_have "$1" ;;
  octave) tb_have octave-cli ;;
  r-base-core) tb_have Rscript ;;
  *) dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed' ;;
  esac
}

# tb_packages PACKAGE...: installs by apt those that are missing. Fails, having printed the line for the administrator,
# when it may not.
tb_packages() {
  local package missing=()
  for package in "$@"; do
    tb_package_is_there "$package" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if ! tb_have apt-get; then
    tb_say "Missing here: ${missing[*]} (Debian's names). There is no apt-get; install them and run this again."
    return 1
  fi
  local install=(apt-get install --yes --no-install-recommends -o DPkg::Lock::Timeout=120 "${missing[@]}")
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    if tb_have sudo && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
      sudo=(sudo)
    else
      tb_say "Some Debian packages are missing. Run this line as root, then run this script again:"
      printf '%s\n' "apt-get update && ${install[*]}"
      return 1
    fi
  fi
  tb_say "Installing Debian packages: ${missing[*]} (the log is build/apt.log)"
  mkdir -p build
  if ! { "${sudo[@]}" apt-get update &&
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive "${install[@]}"; } >build/apt.log 2>&1; then
    tail -n 15 build/apt.log
    tb_say "apt-get failed. It was: apt-get update && ${install[*]}"
    return 1
  fi
}

# tb_pip LOG ARGUMENT...: pip install in the virtual environment build/venv, which is made when it is not there. No
# dependencies: the callers name everything, and of some packages only their data is wanted.
tb_pip() {
  local log=$1
  shift
  mkdir -p build
  if ! { { [ -x "$tb_venv/bin/pip" ] || /usr/bin/python3 -m venv "$tb_venv"; } &&
    "$tb_venv/bin/pip" install --disable-pip-version-check --retries 1 --only-binary :all: --no-deps "$@"; } \
    >"$log" 2>&1; then
    tail -n 3 "$log"
    return 1
  fi
}

# tb_python_packages MODULE:REQUIREMENT...: sees to it that every MODULE is in build/venv, else installs its REQUIREMENT
# from PyPI. NumPy's wheel brings an OpenBLAS of its own, under symbol names of its own.
tb_python_packages() {
  local pair missing=()
  for pair in "$@"; do
    "$tb_venv/bin/python3" -c "import importlib.util as u, sys; sys.exit(u.find_spec('${pair%%:*}') is None)" \
      2>/dev/null || missing+=("${pair#*:}")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  tb_say "Installing from PyPI into $tb_venv: ${missing[*]} (the log is build/pip.log)"
  tb_pip build/pip.log "${missing[@]}"
}

# Succeeds when this nvcc makes what the kernels need: C++17 device code for the newest architecture we ship.
tb_nvcc_works() {
  [ -x "$1" ] || return 1
  local folder result=0
  folder=$(mktemp -d)
  printf '#include <cuda.h>\n#include <cuda_fp16.h>\n%s\n' \
    'extern "C" __global__ void k(float *x) { if constexpr (sizeof(CUdeviceptr) == 8) x[threadIdx.x] *= 2; }' \
    >"$folder/k.cu"
  "$1" -fatbin -std=c++17 -gencode=arch=compute_75,code=compute_75 -gencode=arch=compute_90a,code=sm_90a \
    -o "$folder/k.fatbin" "$folder/k.cu" >"$folder/log" 2>&1 || result=1
  rm -r "$folder"
  return $result
}

# shellcheck disable=SC2034 # tb_cuda_arguments is for the sourcing script
# Sets tb_nvcc to a CUDA compiler that works, or to nothing; tb_cuda_arguments tells CMake so. Takes the machine's own,
# else NVIDIA's wheels in build/nvcc, which are fetched (100 MB) when they are not there yet.
tb_find_nvcc() {
  local candidate wheel=$PWD/$tb_nvcc_dir/nvidia/cu13/bin/nvcc
  tb_nvcc=
  for candidate in "$(command -v nvcc || true)" "${CUDA_HOME:-/nonexistent}/bin/nvcc" /usr/local/cuda/bin/nvcc \
    "$wheel"; do
    if tb_nvcc_works "$candidate"; then
      tb_nvcc=$candidate
      break
    fi
  done
  [ -n "$tb_nvcc" ] || tb_fetch_nvcc "$wheel"
  if [ -n "$tb_nvcc" ]; then
    tb_cuda_arguments=(-DTILEBLAS_CUDA=ON "-DTILEBLAS_NVCC=$tb_nvcc")
    tb_say "CUDA compiler: $tb_nvcc"
  else
    tb_cuda_arguments=(-DTILEBLAS_CUDA=OFF)
    tb_say "No CUDA compiler: TileBLAS is built without kernels and will answer every call from the CPU BLAS."
  fi
}

# NVIDIA splits its compiler over these wheels; they must be of one release, and pip alone would mix releases.
tb_fetch_nvcc() {
  local part wheels=()
  for part in cuda-nvcc cuda-crt nvvm cuda-runtime cuda-cccl; do
    wheels+=("nvidia-$part==13.0.*")
  done
  tb_say "No CUDA compiler here: fetching NVIDIA's from PyPI into $tb_nvcc_dir (100 MB, once; see build/nvcc.log)"
  rm -rf "$tb_nvcc_dir"
  tb_pip build/nvcc.log --target "$tb_nvcc_dir" "${wheels[@]}" || return 0
  if tb_nvcc_works "$1"; then
    tb_nvcc=$1
  else
    tb_say "The fetched compiler does not work on this machine."
  fi
}
