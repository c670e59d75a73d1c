# SPDX-License-Identifier: BSD-3-Clause
# The files in the folder TOLD, one a test, in which the fake driver tells what ended a process (FAKE_CUDA_TOLD).
# WHEN=before: there are none. WHEN=after: there must be none.
if(WHEN STREQUAL before)
  file(REMOVE_RECURSE ${TOLD})
  file(MAKE_DIRECTORY ${TOLD})
  return()
endif()
file(GLOB told ${TOLD}/*)
foreach(file ${told})
  file(READ ${file} text)
  get_filename_component(test ${file} NAME)
  message(SEND_ERROR "In ${test} a process ended by misuse of the driver, or with something left in it:\n${text}")
endforeach()
