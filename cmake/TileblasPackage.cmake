# SPDX-License-Identifier: BSD-3-Clause
# The development name, install rules, pkg-config and CMake package files, and the archives that CPack makes. Everything
# installed finds its neighbours by relative paths, so that a prefix can be moved.

add_library(tileblas::tileblas ALIAS tileblas)
set_property(TARGET tileblas PROPERTY EXPORT_NAME tileblas)
# A program that links TileBLAS usually calls routines that TileBLAS leaves to the CPU BLAS. As needed, because one that
# calls only ours should not depend on it.
target_link_libraries(tileblas INTERFACE
  $<INSTALL_INTERFACE:-Wl,--push-state,--as-needed,-lopenblas,--pop-state>)

# What `-ltileblas` finds: a linker script, not a link to the library, for the same reason. It names the library without
# a path, which every linker looks up where it found the script.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/libtileblas.so @ONLY CONTENT
"/* GNU ld script: TileBLAS first, and OpenBLAS for every routine that TileBLAS does not implement. */
INPUT(libtileblas.so.0 AS_NEEDED(-lopenblas))
")

set(tileblas_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tileblas)
install(TARGETS tileblas EXPORT tileblasTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_SKIP)
install(FILES ${CMAKE_BINARY_DIR}/libtileblas.so DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/tileblas.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs FILES_MATCHING PATTERN "*.md")
install(FILES ${TILEBLAS_MANUAL} DESTINATION ${CMAKE_INSTALL_MANDIR}/man7)
install(EXPORT tileblasTargets NAMESPACE tileblas:: DESTINATION ${tileblas_package_dir})

include(CMakePackageConfigHelpers)
configure_package_config_file(cmake/tileblasConfig.cmake.in ${CMAKE_BINARY_DIR}/tileblasConfig.cmake
  INSTALL_DESTINATION ${tileblas_package_dir} NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tileblasConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tileblasConfig.cmake ${CMAKE_BINARY_DIR}/tileblasConfigVersion.cmake
  DESTINATION ${tileblas_package_dir})

# pkg-config's ${pcfiledir} is the folder that holds the .pc file; the prefix is as far above it as this says.
file(RELATIVE_PATH tileblas_prefix_from_pc /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" tileblas_prefix_from_pc ${tileblas_prefix_from_pc})
configure_file(cmake/tileblas.pc.in ${CMAKE_BINARY_DIR}/tileblas.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tileblas.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME tileblas)
set(CPACK_PACKAGE_VENDOR "The TileBLAS developers")
set(CPACK_PACKAGE_CONTACT "The TileBLAS developers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_CURRENT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.34)")  # the first with dlopen and threads in libc itself
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libopenblas-dev")
# Without this the loader would not find the library until someone runs ldconfig.
file(WRITE ${CMAKE_BINARY_DIR}/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/triggers)
include(CPack)
