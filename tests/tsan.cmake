# SPDX-License-Identifier: BSD-3-Clause
# What the preset tsan runs, by ctest's label of that name: tests in which threads meet. The others make the same calls
# by one thread. tests/tsan.supp has what ThreadSanitizer takes for a race and is none.
set(TST_TSAN_RUNS
  ^faults\\.fork ^faults\\.lanes ^faults\\.no_gpu ^faults\\.process ^faults\\.threads ^guest\\. ^fuzz\\.placed ^fuzz\\.several
  ^fuzz\\.level3_several
  "^unit\\.(keeping|kept_returning|own_memory|router|router_kept|several|sgemm_pieces|small|small_on_gpu|telling|trials)$")
# It runs a library's exit functions when the process ends, and not when the library is unloaded: so none of the faults.*
# that unload it.
set(TST_TSAN_CANNOT
  ^guest\\.06_jump # it keeps a handler back until the thread waits for something
  ^guest\\.11_fork # it looks through the libraries itself before a program's own dl_iterate_phdr can
  ^guest\\.13_cores # it has a thread of its own, which is counted
  ^guest\\.14_end  # the same; and it drops the argument of the function by which the end is noticed
  ^guest\\.15) # it could, but for a minute, and one thread calls

# Labels the test if it runs there, and says how.
function(tst_under_tsan name)
  foreach(pattern ${TST_TSAN_CANNOT})
    if(name MATCHES "${pattern}")
      return()
    endif()
  endforeach()
  foreach(pattern ${TST_TSAN_RUNS})
    if(name MATCHES "${pattern}")
      set_property(TEST ${name} APPEND PROPERTY LABELS tsan)
      set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
        TSAN_OPTIONS=halt_on_error=1:die_after_fork=0:suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp)
      return()
    endif()
  endforeach()
endfunction()
