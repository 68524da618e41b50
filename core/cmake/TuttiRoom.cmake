# Rooms and parts, by naming convention.
#
#   tutti_room(<name> [DEPENDS <room>...] [LINK <library>...] [SEEDED <filter>...])
#     Makes the targets of the room in the current folder, and in folders below it:
#       *_test.cc       -> tutti_<name>_test, each of its tests a CTest "<name>.<Suite>.<Test>"
#                          with the labels "unit" and "<name>"
#       *_benchmark.cc  -> tutti_<name>_benchmark
#       all other *.cc  -> tutti_<name>, a static, position-independent library
#     A file added to the folder is picked up by the next build. A room without sources yet is an
#     interface library, so that rooms above it can already name it. The tests that SEEDED names, as
#     --gtest_filter does, are one nightly test more, with ten times the runs.
#
#   tutti_test(<target> <prefix> <label>...)
#     Registers each test of the GoogleTest executable <target> with CTest as "<prefix>.<test>".
#     With the label "unit" it is also built by the target tutti_unit_tests.
#
#     Tests that take half a minute have a COST, by which CTest starts them first where it has not
#     seen how long tests take.
#
#   tutti_add_parts(<folder>...)
#     add_subdirectory for each folder that has a CMakeLists.txt.

include(GoogleTest)
define_property(GLOBAL PROPERTY TUTTI_ROOMS BRIEF_DOCS "The library targets of all rooms")

# Under a sanitizer a test may take twenty times as long; the timeout only stops hangs.
set(TUTTI_TEST_TIMEOUT_S 300)

add_custom_target(tutti_unit_tests)

function(tutti_test target prefix)
  tutti_unity_warnings(${target})
  gtest_discover_tests(${target}
    TEST_PREFIX "${prefix}."
    TEST_LIST ${target}_names
    NO_PRETTY_VALUES
    PROPERTIES TIMEOUT ${TUTTI_TEST_TIMEOUT_S}
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 120)
  target_compile_options(${target} PRIVATE ${tutti_test_options})
  # gtest_discover_tests takes one label only; CTest reads this file after the tests' own.
  set(labels_file "${CMAKE_CURRENT_BINARY_DIR}/${target}_labels.cmake")
  file(WRITE "${labels_file}.new" "foreach(name IN LISTS ${target}_names)
  set_tests_properties(\"\${name}\" PROPERTIES LABELS \"${ARGN}\")
endforeach()
")
  file(COPY_FILE "${labels_file}.new" "${labels_file}" ONLY_IF_DIFFERENT)
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${labels_file}")
  if("unit" IN_LIST ARGN)
    add_dependencies(tutti_unit_tests ${target})
  endif()
endfunction()

function(tutti_room name)
  cmake_parse_arguments(PARSE_ARGV 1 room "" "" "DEPENDS;LINK;SEEDED")
  if(room_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tutti_room(${name}): unknown arguments ${room_UNPARSED_ARGUMENTS}")
  endif()
  list(TRANSFORM room_DEPENDS PREPEND tutti_)

  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "*.cc")
  set(tests ${sources})
  set(benchmarks ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER benchmarks INCLUDE REGEX "_benchmark\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_(test|benchmark)\\.cc$")

  set(library tutti_${name})
  if(sources)
    add_library(${library} STATIC ${sources})
    target_link_libraries(${library} PUBLIC tutti_compile ${room_DEPENDS} ${room_LINK})
    tutti_precompile(${library} room)
    tutti_unity(${library})
  else()
    add_library(${library} INTERFACE)
    target_link_libraries(${library} INTERFACE tutti_compile ${room_DEPENDS} ${room_LINK})
  endif()
  set_property(GLOBAL APPEND PROPERTY TUTTI_ROOMS ${library})

  if(tests AND TUTTI_TESTS)
    tutti_unity_tests(tests ${library}_test ${tests})
    add_executable(${library}_test ${tests})
    target_link_libraries(${library}_test PRIVATE ${library} GTest::gmock_main GTest::gmock
                          GTest::gtest)
    tutti_precompile(${library}_test test)
    tutti_test(${library}_test ${name} unit ${name})
    if(room_SEEDED)
      list(JOIN room_SEEDED ":" filter)
      add_test(NAME ${name}.nightly.seeded COMMAND ${library}_test "--gtest_filter=${filter}")
      set_tests_properties(${name}.nightly.seeded PROPERTIES LABELS nightly TIMEOUT 7200
                           ENVIRONMENT TUTTI_TEST_SCALE=1000)
    endif()
  endif()
  if(benchmarks AND TUTTI_BENCHMARKS)
    add_executable(${library}_benchmark ${benchmarks})
    target_link_libraries(${library}_benchmark PRIVATE ${library} benchmark::benchmark_main
                          benchmark::benchmark)
  endif()
endfunction()

function(tutti_add_parts)
  foreach(folder IN LISTS ARGN)
    if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/CMakeLists.txt")
      add_subdirectory(${folder})
    endif()
  endforeach()
endfunction()
