# What `cmake --install` puts down for a user of libtutti: the library, the C headers, tutti.pc
# for pkg-config, and a package for find_package(tutti), which defines tutti::tutti.

include(CMakePackageConfigHelpers)

install(TARGETS tutti EXPORT tuttiTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY "${PROJECT_SOURCE_DIR}/capi/include/tutti"
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

set(tutti_package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/tutti")
install(EXPORT tuttiTargets NAMESPACE tutti:: DESTINATION ${tutti_package_folder})
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/tuttiConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/package/tuttiConfig.cmake"
                              INSTALL_DESTINATION ${tutti_package_folder})
# Before 1.0 each minor version may change the ABI.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/tuttiConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/package/tuttiConfig.cmake"
              "${PROJECT_BINARY_DIR}/package/tuttiConfigVersion.cmake"
        DESTINATION ${tutti_package_folder})

configure_file("${CMAKE_CURRENT_LIST_DIR}/tutti.pc.in" "${PROJECT_BINARY_DIR}/package/tutti.pc.in"
               @ONLY)
# The prefix is known only at install time: cmake --install may be given another one, and two may run
# at once.
install(CODE "set(pc_in \"${PROJECT_BINARY_DIR}/package/tutti.pc.in\")
set(pc_out \"${CMAKE_INSTALL_LIBDIR}/pkgconfig/tutti.pc\")")
install(CODE [[
cmake_path(ABSOLUTE_PATH pc_out BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
message(STATUS "Installing: $ENV{DESTDIR}${pc_out}")
file(READ "${pc_in}" text)
string(REPLACE "%PREFIX%" "${CMAKE_INSTALL_PREFIX}" text "${text}")
file(WRITE "$ENV{DESTDIR}${pc_out}" "${text}")
list(APPEND CMAKE_INSTALL_MANIFEST_FILES "${pc_out}")
]])
