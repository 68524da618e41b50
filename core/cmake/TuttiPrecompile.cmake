# Precompiled headers, which save a second of each compilation: GoogleTest for tests, and with
# TUTTI_PRECOMPILE_ROOMS=ON standard headers for the sources of the rooms. Nothing of ours is in
# them. The presets with sanitizers say ON, and so do tests/run, examples/run and .ci/run for a build
# folder that they set up. `cmake --preset release` alone goes without, so that a source that forgets
# to include what it uses does not compile there; ctest -L nightly looks for such sources, too.
#
#   tutti_precompile(<target> test|room)
#     Compiles the C++ sources of a target with precompiled/<kind>.hxx in front. The target must be
#     compiled as those kinds are: tests as parts of executables, rooms as position-independent.
#
# CMake's own target_precompile_headers would name the header by the build folder, in the command
# and in what comes out of it, and a cache of compilations would serve one build folder only. Here
# the name is relative to the top of the build folder, where Ninja calls the compiler.

option(TUTTI_PRECOMPILE_ROOMS "Compile the sources of the rooms with a precompiled header" OFF)
set(tutti_precompiled_source "${CMAKE_CURRENT_LIST_DIR}/precompiled")

# tutti_precompiled_header(<kind> <library>...): precompiled/<kind>.hxx.gch in the build folder.
function(tutti_precompiled_header kind)
  set(header "${tutti_precompiled_source}/${kind}.hxx")
  set(copy "${CMAKE_BINARY_DIR}/precompiled/${kind}.hxx")
  add_library(tutti_precompiled_${kind} OBJECT "${header}")
  target_link_libraries(tutti_precompiled_${kind} PRIVATE tutti_compile ${ARGN})
  set_source_files_properties("${header}" PROPERTIES LANGUAGE CXX HEADER_FILE_ONLY OFF
                              COMPILE_OPTIONS "-x;c++-header")
  add_custom_command(OUTPUT "${copy}.gch"
    COMMAND "${CMAKE_COMMAND}" -E copy "${header}" "${copy}"
    COMMAND "${CMAKE_COMMAND}" -E copy $<TARGET_OBJECTS:tutti_precompiled_${kind}> "${copy}.gch"
    DEPENDS "${header}" $<TARGET_OBJECTS:tutti_precompiled_${kind}>
    COMMENT "Precompiled header ${kind}.hxx"
    VERBATIM COMMAND_EXPAND_LISTS)
  add_custom_target(tutti_precompiled_${kind}_ready DEPENDS "${copy}.gch")
endfunction()

function(tutti_precompile target kind)
  if(NOT TARGET tutti_precompiled_${kind})
    return()
  endif()
  add_dependencies(${target} tutti_precompiled_${kind}_ready)
  get_target_property(sources ${target} SOURCES)
  set_property(SOURCE ${sources} APPEND PROPERTY OBJECT_DEPENDS
               "${CMAKE_BINARY_DIR}/precompiled/${kind}.hxx.gch")
  # The cache of compilations wants to see in the preprocessed source what was precompiled.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include \
precompiled/${kind}.hxx -fpch-preprocess -Winvalid-pch -Wno-error=invalid-pch>")
endfunction()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_GENERATOR MATCHES "Ninja")
  if(TUTTI_TESTS)
    find_package(GTest REQUIRED)
    tutti_precompiled_header(test GTest::gmock GTest::gtest)
    # As executables are.
    set_target_properties(tutti_precompiled_test PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(tutti_precompiled_test PRIVATE ${CMAKE_CXX_COMPILE_OPTIONS_PIE}
                           ${tutti_test_options})
  endif()
  if(TUTTI_PRECOMPILE_ROOMS)
    find_package(fmt REQUIRED)
    tutti_precompiled_header(room fmt::fmt)
  endif()
endif()
