# Completion for bash: options and subcommands come from the programs' own --help.

_invoker_words() {
  "$@" --help 2>/dev/null | sed -nE 's/^  (-[a-z],)?(--[a-z0-9-]+).*/\2/p'
}

_invoker() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} program=${COMP_WORDS[0]}
  local words
  COMPREPLY=()
  if [[ $previous == = || $current == *=* ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "${current#*=}")
    return
  fi
  if [ "${program##*/}" = invoker ] && [ "$COMP_CWORD" -eq 1 ]; then
    words="$("$program" --help 2>/dev/null | sed -n '/^Subcommands:/,$s/^  \([a-z]*\) .*/\1/p') $(_invoker_words "$program")"
  elif [ "${program##*/}" = invoker ]; then
    words=$(_invoker_words "$program" "${COMP_WORDS[1]}")
  else
    words=$(_invoker_words "$program")
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -o default -F _invoker invoker invoker_server
