#!/usr/bin/env bash
# Shows what clang's thread-safety analysis said, and judges it.
# usage: check_thread_safety.sh --expect-none|--expect-warnings LIST
# LIST names the reports, one a line.
set -euo pipefail
expected=$1
mapfile -t reports <"$2"

if [ ${#reports[@]} -eq 0 ]; then
  echo 'no source was analysed'
  exit 1
fi
echo "${#reports[@]} sources were analysed"
messages=$(cat -- "${reports[@]}")
printf '%s\n' "$messages"
case $expected in
  --expect-none) [ -z "$messages" ] ;;
  --expect-warnings) [[ $messages == *-Wthread-safety* ]] ;;
  *) exit 2 ;;
esac
