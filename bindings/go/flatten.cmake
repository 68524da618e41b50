# Copies a C++ source of the Go module with its headers beside it. `go mod vendor` copies the files of
# packages only, no folders of headers; so those of the facade and of the typemaps stand in the
# package's own folder, as facade_runtime.h and so on.
#   cmake -DFROM=<file> -DTO=<file> -P flatten.cmake
file(READ "${FROM}" text)
get_filename_component(folder "${FROM}" DIRECTORY)
get_filename_component(folder "${folder}" NAME)
string(REGEX REPLACE "#include \"(\\.\\./)?(facade|go)/" "#include \"\\2_" text "${text}")
string(REGEX REPLACE "#include \"([a-z]+\\.h)\"" "#include \"${folder}_\\1\"" text "${text}")
file(WRITE "${TO}" "${text}")
