# The CUDA toolkit's compiler, from wherever it is found: TUTTI_NVCC of the cache, a system's, else
# NVIDIA's wheels, which pip puts into the build folder (104 MB).
#
#   TUTTI_CUDA=AUTO  a toolkit where there is one or one can be fetched; otherwise the plugin is
#                    built without kernels
#   TUTTI_CUDA=ON    without a toolkit the configuration fails
#   TUTTI_CUDA=OFF   no toolkit is looked for
#
# Sets TUTTI_NVCC (empty: none) and TUTTI_NVCC_VERSION ("13.0"). What could not be fetched is not
# tried again before build/<preset>/cuda-toolkit is removed.
set(TUTTI_CUDA AUTO CACHE STRING "The CUDA toolkit for kernels: AUTO, ON or OFF")
set_property(CACHE TUTTI_CUDA PROPERTY STRINGS AUTO ON OFF)
set(TUTTI_NVCC "" CACHE FILEPATH "nvcc; empty: searched for, then fetched")
mark_as_advanced(TUTTI_NVCC)
set(tutti_cuda_folder "${PROJECT_BINARY_DIR}/cuda-toolkit")

function(tutti_fetch_cuda_toolkit)
  set(done "${tutti_cuda_folder}/fetched")
  if(EXISTS "${done}")
    return()
  endif()
  message(STATUS "CUDA: fetching NVIDIA's compiler into ${tutti_cuda_folder}")
  set(wheels "")
  foreach(part IN ITEMS nvcc crt runtime cccl)
    list(APPEND wheels "nvidia-cuda-${part}==13.0.*")
  endforeach()
  # --isolated would lose a mirror that the machine is set up for.
  execute_process(
    COMMAND "${Python3_EXECUTABLE}" -m pip install --quiet --disable-pip-version-check
            --no-warn-script-location --retries 1 --timeout 10 --only-binary=:all:
            --target "${tutti_cuda_folder}/wheels" ${wheels} "nvidia-nvvm==13.0.*"
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output TIMEOUT 90)
  if(NOT result EQUAL 0)
    file(REMOVE_RECURSE "${tutti_cuda_folder}/wheels")
    string(REGEX REPLACE "\n.*" "" output "${output}")
    message(STATUS "CUDA: it cannot be fetched: ${result} ${output}")
  endif()
  file(WRITE "${done}" "${result}\n")
endfunction()

if(TUTTI_CUDA AND NOT TUTTI_NVCC)
  find_program(tutti_system_nvcc nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda
               PATH_SUFFIXES bin NO_CACHE)
  if(tutti_system_nvcc)
    set(TUTTI_NVCC "${tutti_system_nvcc}")
  else()
    tutti_fetch_cuda_toolkit()
    set(fetched "${tutti_cuda_folder}/wheels/nvidia/cu13/bin/nvcc")
    if(EXISTS "${fetched}")
      set(TUTTI_NVCC "${fetched}")
    endif()
  endif()
endif()
if(TUTTI_CUDA STREQUAL "OFF")
  set(TUTTI_NVCC "")
endif()

set(TUTTI_NVCC_VERSION "")
if(TUTTI_NVCC)
  execute_process(COMMAND "${TUTTI_NVCC}" --version OUTPUT_VARIABLE output ERROR_QUIET)
  if(output MATCHES "release ([0-9]+\\.[0-9]+)")
    set(TUTTI_NVCC_VERSION "${CMAKE_MATCH_1}")
  else()
    message(STATUS "CUDA: ${TUTTI_NVCC} does not run")
    set(TUTTI_NVCC "")
  endif()
  # C++20, and kernels with more than 4 KiB of parameters.
  if(TUTTI_NVCC_VERSION AND TUTTI_NVCC_VERSION VERSION_LESS 12.1)
    message(STATUS "CUDA: ${TUTTI_NVCC} is ${TUTTI_NVCC_VERSION}; 12.1 or later is needed")
    set(TUTTI_NVCC "")
  endif()
endif()
if(TUTTI_NVCC)
  message(STATUS "CUDA: kernels by ${TUTTI_NVCC} (${TUTTI_NVCC_VERSION})")
elseif(TUTTI_CUDA STREQUAL "ON")
  message(FATAL_ERROR "TUTTI_CUDA=ON, and there is no CUDA toolkit: install one, name its nvcc by "
                      "-DTUTTI_NVCC=, or let pip reach nvidia-cuda-nvcc; ${tutti_cuda_folder} "
                      "remembers that it failed")
else()
  message(STATUS "CUDA: no toolkit, so the plugin has no kernels")
endif()
