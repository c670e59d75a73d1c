# SPDX-License-Identifier: BSD-3-Clause
# Finds nvcc and turns .cu files into fat binaries that the host library embeds.
#
# CMake's own CUDA language is not enabled: it would link the CUDA runtime and needs a newer CMake for fat binaries. One
# custom command per file, with the architectures named here, is all that is wanted.
#
# Sets TILEBLAS_HAVE_CUDA and TILEBLAS_CUDA_INCLUDE (the folder with cuda.h).
# TILEBLAS_NVCC may name the compiler; build/nvcc/bin/nvcc is where tests/run and bench/demo put NVIDIA's wheels.

set(TILEBLAS_HAVE_CUDA OFF)
if(NOT TILEBLAS_CUDA STREQUAL "OFF")
  find_program(TILEBLAS_NVCC nvcc
    HINTS ${CMAKE_SOURCE_DIR}/build/nvcc/nvidia/cu13/bin $ENV{CUDA_HOME}/bin /usr/local/cuda/bin
    DOC "NVIDIA's CUDA compiler")
  if(EXISTS "${TILEBLAS_NVCC}")
    file(REAL_PATH ${TILEBLAS_NVCC} nvcc_real)
    cmake_path(GET nvcc_real PARENT_PATH nvcc_bin)
    find_path(TILEBLAS_CUDA_INCLUDE cuda.h
      HINTS ${nvcc_bin}/../include ${nvcc_bin}/../targets/x86_64-linux/include
      DOC "Folder with cuda.h")
  endif()
  if(EXISTS "${TILEBLAS_NVCC}" AND TILEBLAS_CUDA_INCLUDE)
    set(TILEBLAS_HAVE_CUDA ON)
    message(STATUS "tileblas: kernels compiled by ${TILEBLAS_NVCC}")
  elseif(TILEBLAS_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TILEBLAS_CUDA=ON, but nvcc or cuda.h was not found; set TILEBLAS_NVCC")
  else()
    message(STATUS "tileblas: no nvcc, so no kernels: the library will answer every call from the CPU BLAS")
  endif()
else()
  message(STATUS "tileblas: TILEBLAS_CUDA=OFF, so no kernels: the library will answer every call from the CPU BLAS")
endif()

# Machine code for the two data-centre generations; PTX for the driver to compile on every other GPU from 7.5 on.
set(TILEBLAS_GENCODE
  -gencode=arch=compute_75,code=compute_75
  -gencode=arch=compute_80,code=compute_80
  -gencode=arch=compute_80,code=sm_80
  -gencode=arch=compute_90a,code=sm_90a
  CACHE STRING "nvcc -gencode options for the embedded kernels")

# Without optimisation nvcc takes a twelfth of the time. The same kernels for the same GPUs come out of the same sources,
# slow and with spills: for tests on the fake driver, which asks a fat binary for what it holds and runs none of it.
option(TILEBLAS_QUICK_KERNELS "Have nvcc optimise no kernel: quickly built, and of no use on a GPU" OFF)
if(TILEBLAS_QUICK_KERNELS AND TILEBLAS_HAVE_CUDA)
  message(STATUS "tileblas: kernels are not optimised: TILEBLAS_QUICK_KERNELS is ON, for tests without a GPU")
endif()

set(TILEBLAS_KEPT_FATBINS "" CACHE PATH "Folder of fat binaries that builds share; empty: each compiles its own")

# tileblas_add_fatbin(NAME source.cu [GENCODE]): builds NAME.fatbin in the current binary folder, and sets NAME_FATBIN to
# its path. GENCODE: nvcc's -gencode options, if not those for every GPU.
function(tileblas_add_fatbin name source)
  set(gencode ${TILEBLAS_GENCODE})
  if(ARGN)
    set(gencode ${ARGN})
  endif()
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${name}.fatbin)
  set(once "")
  if(TILEBLAS_KEPT_FATBINS)
    set(once ${CMAKE_SOURCE_DIR}/cmake/fatbin ${TILEBLAS_KEPT_FATBINS} ${CMAKE_SOURCE_DIR}/kernels)
  endif()
  # ptxas warns of register spills when asked to (-Xptxas -warn-spills), and -Werror makes that the end of the build.
  set(optimised -Xptxas=-warn-spills)
  if(TILEBLAS_QUICK_KERNELS)
    set(optimised --Ofast-compile=max)
  endif()
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${once} ${TILEBLAS_NVCC} -fatbin -std=c++17 -O3 --threads 2 ${gencode} -Xfatbin=-compress-all ${optimised}
            -I${CMAKE_SOURCE_DIR}/kernels -Werror all-warnings -MD -MF ${out}.d -o ${out}
            ${CMAKE_CURRENT_SOURCE_DIR}/${source}
    DEPENDS ${source}
    DEPFILE ${out}.d
    COMMENT "nvcc ${source}"
    VERBATIM)
  add_custom_target(${name}_fatbin ALL DEPENDS ${out})
  set(${name}_FATBIN ${out} PARENT_SCOPE)
endfunction()
