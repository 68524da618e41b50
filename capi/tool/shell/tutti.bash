# Completion of the command tutti for bash. What a command takes it says itself, in its help.
_tutti() {
  local word=${COMP_WORDS[COMP_CWORD]}
  if [ "$COMP_CWORD" -eq 1 ]; then
    # shellcheck disable=SC2207
    COMPREPLY=($(compgen -W "run trace explain bench doctor help --help --version" -- "$word"))
    return
  fi
  local i
  for ((i = 2; i < COMP_CWORD; ++i)); do
    # Behind -- stands another program, with options of its own.
    if [ "${COMP_WORDS[i]}" = -- ]; then
      # shellcheck disable=SC2207
      COMPREPLY=($(compgen -A command -A file -- "$word"))
      return
    fi
  done
  case ${COMP_WORDS[1]} in
    help) COMPREPLY=($(compgen -W "run trace explain bench doctor" -- "$word")) ;;
    run | trace | explain | bench | doctor)
      local options
      options=$("${COMP_WORDS[0]}" "${COMP_WORDS[1]}" --help 2> /dev/null |
        grep -oE -- '--[a-z][a-z-]*' | sort -u)
      COMPREPLY=($(compgen -W "$options" -- "$word"))
      ;;
  esac
}
complete -o default -F _tutti tutti
