#!/usr/bin/env bash
# Runs a libFuzzer program as a test: run_fuzz.sh PROGRAM CORPUS RUNS [OPTION...]
# Every input of the corpus first, then RUNS new ones from a fixed seed, or as many as a minute takes. An input
# that fails is kept among the test's outputs, and printed.
set -euo pipefail

program=$1
corpus=$2
runs=$3
shift 3
out=${TEST_UNDECLARED_OUTPUTS_DIR:?}
new=$(mktemp -d "${TEST_TMPDIR:?}/new.XXXXXX")
export ASAN_OPTIONS=${FUZZ_ASAN_OPTIONS:-detect_leaks=1}:abort_on_error=0:symbolize=1
export ASAN_SYMBOLIZER_PATH=/usr/bin/llvm-symbolizer
export UBSAN_OPTIONS=print_stacktrace=1

options=(-seed=1 -timeout=60 -rss_limit_mb=2048 -print_final_stats=1 "-artifact_prefix=$out/" "$@")
status=0
if [ -d "$corpus" ]; then
  "$program" "${options[@]}" "$corpus"/* || status=$?
fi
if [ "$status" -eq 0 ]; then
  seeds=()
  if [ -d "$corpus" ]; then seeds=("$corpus"); fi
  "$program" "${options[@]}" "-runs=$runs" -max_total_time=60 "$new" "${seeds[@]}" || status=$?
fi
rm -rf "$new"
if [ "$status" -ne 0 ]; then
  for input in "$out"/*; do
    [ -f "$input" ] || continue
    printf 'The input, in base64:\n'
    base64 "$input"
    printf 'To run it again: write it to a file, and\n  bazel-bin/%s FILE\n' "$program"
  done
fi
exit "$status"
