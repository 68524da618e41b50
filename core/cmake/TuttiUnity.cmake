# Unity builds: the sources of a folder are compiled some at a time, as one unit, and the headers
# that all of them include once. With TUTTI_UNITY=ON, which the presets with sanitizers say: from
# nothing that takes a third of the time, after a change of one file it takes longer.
#
#   tutti_unity(<target>)
#     For libraries. Names in the anonymous namespaces of two sources of a folder must differ.
#   tutti_unity_tests(<variable> <target> <source>...)
#     For tests: sets <variable> to what <target> is to be made of. Two tests may give helpers the
#     same name, because join_tests.py puts the anonymous namespace of each into one of its own.
#
# Each unit has at most tutti_unity_most sources, of one folder: two cores then still have work side
# by side, and a unit takes less than 1.5 GB of memory.

option(TUTTI_UNITY "Compile the sources of a folder some at a time" OFF)
set(tutti_unity_most 16)
set(tutti_join_tests "${CMAKE_CURRENT_LIST_DIR}/join_tests.py")

# tutti_unity_groups(<variable> <source>...): lists of about equal length, each of one folder, as
# "<source>|<source>..."; CMake has no lists of lists.
function(tutti_unity_groups variable)
  set(folders "")
  foreach(source IN LISTS ARGN)
    cmake_path(GET source PARENT_PATH folder)
    list(APPEND folders "${folder}")
  endforeach()
  list(REMOVE_DUPLICATES folders)

  set(groups "")
  foreach(wanted IN LISTS folders)
    set(of_folder "")
    foreach(source IN LISTS ARGN)
      cmake_path(GET source PARENT_PATH folder)
      if(folder STREQUAL wanted)
        list(APPEND of_folder "${source}")
      endif()
    endforeach()
    list(LENGTH of_folder count)
    math(EXPR units "(${count} + ${tutti_unity_most} - 1) / ${tutti_unity_most}")
    math(EXPR each "(${count} + ${units} - 1) / ${units}")
    while(of_folder)
      list(SUBLIST of_folder 0 ${each} group)
      list(REMOVE_ITEM of_folder ${group})
      list(JOIN group "|" group)
      list(APPEND groups "${group}")
    endwhile()
  endforeach()
  set(${variable} ${groups} PARENT_SCOPE)
endfunction()

# What lies in an anonymous namespace is no less private where that is included by another file.
function(tutti_unity_warnings target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endfunction()

function(tutti_unity target)
  if(NOT TUTTI_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  tutti_unity_groups(groups ${sources})
  set(number 0)
  foreach(group IN LISTS groups)
    string(REPLACE "|" ";" group "${group}")
    set_source_files_properties(${group} PROPERTIES UNITY_GROUP ${number})
    math(EXPR number "${number} + 1")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  tutti_unity_warnings(${target})
endfunction()

function(tutti_unity_tests variable target)
  if(NOT TUTTI_UNITY)
    set(${variable} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  tutti_unity_groups(groups ${ARGN})
  set(joined "")
  set(number 0)
  foreach(group IN LISTS groups)
    string(REPLACE "|" ";" group "${group}")
    set(unit "${CMAKE_CURRENT_BINARY_DIR}/${target}_${number}.cc")
    add_custom_command(OUTPUT "${unit}"
      COMMAND Python3::Interpreter -B "${tutti_join_tests}" "${unit}" ${group}
      DEPENDS "${tutti_join_tests}" ${group}
      VERBATIM)
    list(APPEND joined "${unit}")
    math(EXPR number "${number} + 1")
  endforeach()
  set(${variable} ${joined} PARENT_SCOPE)
endfunction()
