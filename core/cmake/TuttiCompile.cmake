# How everything of ours is compiled: the language levels, the warnings, the build types, the
# sanitizers and the compiler cache. Generated code (protobuf, SWIG) is not ours: targets of it
# do not link tutti_compile.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or Sanitized" FORCE)
endif()

# Release keeps assert(): the invariants it states are cheap, and the code under test is the code
# that ships. Line tables only (-g1) are enough for a useful backtrace.
foreach(language IN ITEMS C CXX)
  set(CMAKE_${language}_FLAGS_RELEASE "-O2 -g1")
  set(CMAKE_${language}_FLAGS_DEBUG "-O0 -g")
  set(CMAKE_${language}_FLAGS_SANITIZED "-O1 -g1 -fno-omit-frame-pointer")
endforeach()

add_library(tutti_compile INTERFACE)
target_include_directories(tutti_compile INTERFACE "${PROJECT_SOURCE_DIR}")
# Contracting a*b+c into one rounding would make results differ between machines, and between
# the vector body and the scalar tail of one loop.
target_compile_options(tutti_compile INTERFACE -Wall -Wextra -Werror -ffp-contract=off)

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
target_link_libraries(tutti_compile INTERFACE Threads::Threads)

# Sanitizers go to every target, generated code included.
if(TUTTI_SANITIZE)
  add_compile_options(-fsanitize=${TUTTI_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TUTTI_SANITIZE})
  if(TUTTI_SANITIZE MATCHES thread)
    # GCC warns that TSan cannot see std::atomic_thread_fence; -Werror must not stop the build.
    add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-tsan>)
  endif()
endif()

# What tests are compiled with besides. Not to optimise them takes two thirds of the time, half under
# AddressSanitizer, and checks no less: what they test is optimised. Under ThreadSanitizer they would
# run for longer than that saves.
set(tutti_test_options "")
if(NOT TUTTI_SANITIZE MATCHES thread)
  set(tutti_test_options -O0)
endif()

# One cache entry serves all build folders: the directory that a compiler runs in is not hashed. The
# sloppiness is what ccache wants for precompiled headers. It asks the compiler what a source
# includes (DEPEND) in place of preprocessing each source first, a tenth of the time where the cache
# is empty.
find_program(TUTTI_CCACHE ccache)
mark_as_advanced(TUTTI_CCACHE)
if(TUTTI_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  foreach(language IN ITEMS C CXX)
    set(CMAKE_${language}_COMPILER_LAUNCHER env CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
        CCACHE_SLOPPINESS=pch_defines,time_macros "${TUTTI_CCACHE}")
  endforeach()
endif()
