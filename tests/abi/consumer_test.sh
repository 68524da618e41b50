#!/usr/bin/env bash
# Installs the library into a fresh prefix and builds a program against it, through pkg-config or
# through find_package.
#
#   consumer_test.sh pkg-config|find_package BUILD_FOLDER CMAKE C_COMPILER
set -euo pipefail
way=$1 build=$2 cmake=$3 compiler=$4
source_folder=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/consumer" && pwd)
work=$(mktemp -d "$build/consumer-$way-XXXXXX")
trap 'rm -rf -- "$work"' EXIT
"$cmake" --install "$build" --prefix "$work/prefix" >/dev/null

case $way in
  pkg-config)
    package_path=$(dirname "$(find "$work/prefix" -name tutti.pc)")
    export PKG_CONFIG_PATH=$package_path
    # shellcheck disable=SC2046 -- the flags are words
    "$compiler" -std=c99 $(pkg-config --cflags tutti) "$source_folder/main.c" -o "$work/consumer" \
      $(pkg-config --libs tutti) -Wl,-rpath,"$(pkg-config --variable=libdir tutti)"
    "$work/consumer"
    ;;
  find_package)
    "$cmake" -S "$source_folder" -B "$work/build" -G Ninja -DCMAKE_C_COMPILER="$compiler" \
      -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
    "$cmake" --build "$work/build" >/dev/null
    "$work/build/consumer"
    ;;
esac
test -f "$work/prefix/include/tutti/tutti_dl.h"
