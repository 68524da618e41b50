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

# What a shell completes, what man shows, and what a misspelt command is answered.
for command in run trace bench doctor; do
  grep -q "^\\.B .*$command" "$prefix/share/man/man1/tutti.1" || { echo "man: $command"; exit 1; }
done
PATH="$prefix/bin:$PATH" bash -eu -c '
  . "$1/share/bash-completion/completions/tutti"
  completed() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _tutti
    echo "${COMPREPLY[*]}"
  }
  [ "$(completed tutti do)" = doctor ]
  [ "$(completed tutti run --work)" = --workers ]
  [ -z "$(completed tutti run -- --work)" ]
' complete "$prefix" || { echo "completion"; exit 1; }
said=$("$prefix/bin/tutti" docter 2>&1) && exit 1
case $said in *"no command docter; did you mean doctor?"*) ;; *) echo "$said"; exit 1 ;; esac
# What Valgrind is told of a program that leaves the default runtime to the end of the process.
grep -q "match-leak-kinds: possible" "$prefix/share/tutti/valgrind.supp"
if command -v valgrind > /dev/null; then
  valgrind --quiet --error-exitcode=1 --suppressions="$prefix/share/tutti/valgrind.supp" true
fi
