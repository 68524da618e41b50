# The Python wheel, <build>/bindings/python/tutti-<version>-<tag>.whl: the package of the build
# folder, libtutti.so.0 beside the extension, and the command. All find each other by $ORIGIN, and
# are stripped: the line tables of a release are five times as large as its code.
execute_process(COMMAND "${Python3_EXECUTABLE}" -B "${CMAKE_CURRENT_LIST_DIR}/make_wheel.py" --print-tag
                OUTPUT_VARIABLE wheel_tag OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(wheel "${CMAKE_CURRENT_BINARY_DIR}/python/tutti-${PROJECT_VERSION}-${wheel_tag}.whl")
set(parts "${CMAKE_CURRENT_BINARY_DIR}/wheel")

set_target_properties(tutti_python PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS tutti_python LIBRARY DESTINATION . COMPONENT wheel EXCLUDE_FROM_ALL)
install(TARGETS tutti LIBRARY DESTINATION . COMPONENT wheel EXCLUDE_FROM_ALL NAMELINK_SKIP)

# The command once more, for a library in the folder above.
add_executable(tutti_wheel_tool "${PROJECT_SOURCE_DIR}/capi/tool/main.cc")
target_link_libraries(tutti_wheel_tool PRIVATE tutti_tool_parts)
set_target_properties(tutti_wheel_tool PROPERTIES OUTPUT_NAME tutti INSTALL_RPATH "$ORIGIN/.."
                      RUNTIME_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/wheel_tool")
install(TARGETS tutti_wheel_tool RUNTIME DESTINATION bin COMPONENT wheel EXCLUDE_FROM_ALL)

set(native "_native.${Python3_SOABI}.so")
add_custom_command(OUTPUT "${wheel}"
  COMMAND "${CMAKE_COMMAND}" -E rm -rf "${parts}"
  COMMAND "${CMAKE_COMMAND}" --install "${PROJECT_BINARY_DIR}" --component wheel --strip
          --prefix "${parts}"
  COMMAND Python3::Interpreter -B "${CMAKE_CURRENT_LIST_DIR}/make_wheel.py"
          --version "${PROJECT_VERSION}" --package "${package}"
          --readme "${CMAKE_CURRENT_SOURCE_DIR}/python/README.md"
          --license "${PROJECT_SOURCE_DIR}/LICENSE"
          --add "${native}=${parts}/${native}"
          --add "libtutti.so.0=${parts}/$<TARGET_SONAME_FILE_NAME:tutti>"
          --add "bin/tutti=${parts}/bin/tutti"
          --add "needed-packages=${PROJECT_BINARY_DIR}/bindings/packaging/needed-packages"
          "${wheel}"
  DEPENDS tutti tutti_python tutti_wheel_tool tutti_needed_packages ${copied} ${stub}
          "${PROJECT_BINARY_DIR}/bindings/packaging/needed-packages"
          "${CMAKE_CURRENT_LIST_DIR}/make_wheel.py" "${PROJECT_SOURCE_DIR}/LICENSE"
          "${CMAKE_CURRENT_SOURCE_DIR}/python/README.md"
  COMMENT "Packing the Python wheel"
  VERBATIM)
add_custom_target(tutti_wheel ALL DEPENDS "${wheel}")
add_dependencies(tutti_wheel tutti_python_package)
install(FILES "${wheel}" DESTINATION ${CMAKE_INSTALL_DATADIR}/tutti/python OPTIONAL)
