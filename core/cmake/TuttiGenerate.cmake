# What the C headers write: the outputs of bindings/generate, in the build folder.
#
#   tutti_generate(<generator> <output>)
#     <output> is written by bindings/generate/<generator>.py from the C headers and api.toml; only
#     when it changes, so that what depends on it is not built anew for nothing.

set(tutti_generated "${PROJECT_BINARY_DIR}/generated")
file(GLOB tutti_generator_inputs CONFIGURE_DEPENDS
     "${PROJECT_SOURCE_DIR}/capi/include/tutti/*.h" "${PROJECT_SOURCE_DIR}/bindings/generate/*.py")
list(FILTER tutti_generator_inputs EXCLUDE REGEX "_test\\.py$")
list(APPEND tutti_generator_inputs "${PROJECT_SOURCE_DIR}/bindings/generate/api.toml"
     "${PROJECT_SOURCE_DIR}/capi/declarations.py")

function(tutti_generate generator output)
  add_custom_command(OUTPUT "${output}"
    COMMAND Python3::Interpreter -B "${PROJECT_SOURCE_DIR}/bindings/generate/${generator}.py"
            "${output}"
    DEPENDS ${tutti_generator_inputs} ${ARGN}
    COMMENT "Generating ${output}" VERBATIM)
endfunction()
