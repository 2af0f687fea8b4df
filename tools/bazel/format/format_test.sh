#!/usr/bin/env bash
# The repository is well formatted, and tools/format says so of a tree that is not.
set -euo pipefail
format=$(readlink -f "$1")
bad=$TEST_TMPDIR/bad
mkdir -p "$bad"
cp "$(dirname "$format")/../.clang-format" "$bad/"
cd "$bad"

printf 'int  f( ) {return 1;}\n' >bad.cc
printf 'cc_library(srcs=["b.cc", "a.cc"], name="x")\n' >BUILD.bazel
if output=$("$format" --root="$bad" bad.cc BUILD.bazel); then
  echo "tools/format accepted badly formatted files: $output" >&2
  exit 1
fi
expected=(BUILD.bazel:1)
# tools/format says so where there is no clang-format, or one of another release.
grep -qF 'C++ is left out' <<<"$output" || expected+=(bad.cc:1)
for line in "${expected[@]}"; do
  grep -qF "$line" <<<"$output" || { echo "no report of $line in: $output" >&2; exit 1; }
done
"$format" --fix --root="$bad" bad.cc
"$format" --root="$bad" bad.cc

"$format"
