# Unity builds: the sources of a folder are compiled some at a time, as one unit, and the headers
# that all of them include once. With TUTTI_UNITY=ON, which the presets with sanitizers say: from
# nothing that takes half the time, after a change of one file it takes longer.
#
#   tutti_unity(<target>)
#     For libraries. Names in the anonymous namespaces of two sources of a folder must differ.
#   tutti_unity_tests(<variable> <target> <source>...)
#     For tests: sets <variable> to what <target> is to be made of. Two tests may give helpers the
#     same name, because join_tests.py puts the anonymous namespace of each into one of its own.
#
# A source with the property SKIP_UNITY_BUILD_INCLUSION is compiled alone by both.
#
# A unit has at most tutti_unity_most sources: several cores have work side by side, and none takes
# more than 1.5 GB of memory.

option(TUTTI_UNITY "Compile the sources of a folder some at a time" OFF)
set(tutti_unity_most 16)
set(tutti_join_tests "${CMAKE_CURRENT_LIST_DIR}/join_tests.py")

# tutti_unity_split(<variable> <source>...): lists of about equal length, as "<source>|<source>..."
# each; CMake has no lists of lists.
function(tutti_unity_split variable)
  set(groups "")
  set(${variable} "" PARENT_SCOPE)
  if(NOT ARGN)
    return()
  endif()
  list(LENGTH ARGN count)
  math(EXPR units "(${count} + ${tutti_unity_most} - 1) / ${tutti_unity_most}")
  math(EXPR each "(${count} + ${units} - 1) / ${units}")
  while(ARGN)
    list(SUBLIST ARGN 0 ${each} group)
    list(REMOVE_ITEM ARGN ${group})
    list(JOIN group "|" group)
    list(APPEND groups "${group}")
  endwhile()
  set(${variable} ${groups} PARENT_SCOPE)
endfunction()

# What lies in an anonymous namespace is no less private where that is included by another file.
function(tutti_unity_warnings target)
  if(TUTTI_UNITY)
    target_compile_options(${target} PRIVATE
                           $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

function(tutti_unity target)
  if(NOT TUTTI_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(folders "")
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH folder)
    list(APPEND folders "${folder}")
  endforeach()
  list(REMOVE_DUPLICATES folders)
  set(number 0)
  foreach(folder IN LISTS folders)
    set(of_folder "")
    foreach(source IN LISTS sources)
      cmake_path(GET source PARENT_PATH its_folder)
      if(its_folder STREQUAL folder)
        list(APPEND of_folder "${source}")
      endif()
    endforeach()
    tutti_unity_split(groups ${of_folder})
    foreach(group IN LISTS groups)
      string(REPLACE "|" ";" group "${group}")
      set_source_files_properties(${group} PROPERTIES UNITY_GROUP ${number})
      # CMake calls the unit so; it is to be compiled again where its precompiled header is.
      if(TARGET tutti_precompiled_room_ready)
        set_property(SOURCE
          "${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}.dir/Unity/unity_${number}_cxx.cxx"
          APPEND PROPERTY OBJECT_DEPENDS "${CMAKE_BINARY_DIR}/precompiled/room.hxx.gch")
      endif()
      math(EXPR number "${number} + 1")
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  tutti_unity_warnings(${target})
endfunction()

function(tutti_unity_tests variable target)
  if(NOT TUTTI_UNITY)
    set(${variable} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(joined "")
  set(sources "")
  foreach(source IN LISTS ARGN)
    get_source_file_property(alone "${source}" SKIP_UNITY_BUILD_INCLUSION)
    if(alone)
      list(APPEND joined "${source}")
    else()
      list(APPEND sources "${source}")
    endif()
  endforeach()
  tutti_unity_split(groups ${sources})
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
