#!/usr/bin/env bash
# Runs guest.sh in the machine of tools/soft_roce on this test's own files. The suite's XML is this test's.
# $1: tools/soft_roce, the other arguments are guest.sh's. Fails where the machine cannot run.
set -euo pipefail
soft_roce=$1
shift
output=$(mktemp -d)
trap 'rm -rf "$output"' EXIT
status=0
"$soft_roce" --timeout=3000 --output="$output" -- tests/soft_roce/guest.sh --binaries=. "$@" || status=$?
if [ -n "${XML_OUTPUT_FILE:-}" ] && [ -s "$output/suite.xml" ]; then
  cp "$output/suite.xml" "$XML_OUTPUT_FILE"
fi
exit "$status"
