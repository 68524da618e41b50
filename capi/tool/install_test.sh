#!/bin/sh
# The installed command runs from where it was installed to, with the library beside it.
#
#   install_test.sh BUILD_DIR CMAKE
set -eu
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
"$2" --install "$1" --prefix "$prefix" > "$prefix/log" || { cat "$prefix/log"; exit 1; }
"$prefix/bin/tutti" run --workers 2 -- "$prefix/bin/tutti" --version
"$prefix/bin/tutti" doctor > "$prefix/doctor"
grep "^library .* from $(realpath "$prefix")/" "$prefix/doctor" || { cat "$prefix/doctor"; exit 1; }
