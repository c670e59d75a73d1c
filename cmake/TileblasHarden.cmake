# SPDX-License-Identifier: BSD-3-Clause
# A preloaded library shares its process with everybody's data, so it is built as distributions build theirs. SECURITY.md
# says what each option is for; package.hardened reads the result.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)

check_c_compiler_flag(-fstack-protector-strong TILEBLAS_CC_STACK_PROTECTOR)
check_c_compiler_flag(-fcf-protection=return TILEBLAS_CC_SHADOW_STACK)  # x86; marks the file, and costs no instruction
# The third level wants a compiler and a C library of 2022; others warn, or take it for the second.
set(CMAKE_REQUIRED_FLAGS "-O2 -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
check_c_source_compiles("#include <string.h>
  #if __USE_FORTIFY_LEVEL < 3
  #error only two levels
  #endif
  int main(void) { return 0; }" TILEBLAS_CC_FORTIFY_3)
unset(CMAKE_REQUIRED_FLAGS)

function(tileblas_harden_objects target)
  if(TILEBLAS_CC_STACK_PROTECTOR)
    target_compile_options(${target} PRIVATE -fstack-protector-strong)
  endif()
  if(TILEBLAS_CC_SHADOW_STACK)
    target_compile_options(${target} PRIVATE -fcf-protection=return)
  endif()
  if(NOT TILEBLAS_SANITIZE AND NOT TILEBLAS_COVERAGE)  # the sanitizers check more; without optimisation nothing is checked
    set(level $<IF:$<BOOL:${TILEBLAS_CC_FORTIFY_3}>,3,2>)
    target_compile_options(${target} PRIVATE
      $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=${level}>)
  endif()
endfunction()

function(tileblas_harden_library target)
  target_link_options(${target} PRIVATE -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -Wl,-z,separate-code)
endfunction()
