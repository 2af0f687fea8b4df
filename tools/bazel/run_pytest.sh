#!/usr/bin/env bash
# Runs pytest inside a Bazel test: run_pytest.sh [FILE_OR_ARGUMENT...]
#   INVOKER_PYTHONPATH  directories from the workspace's root, with colons between them
#   INVOKER_SANITIZER   asan, tsan or ubsan where the extension module was built with it
set -eu
root=$TEST_SRCDIR/$TEST_WORKSPACE
cd "$root"

path=
IFS=: read -ra directories <<<"${INVOKER_PYTHONPATH:-.}"
for directory in "${directories[@]}"; do
  path=$path${path:+:}$(realpath -ms "$root/$directory")
done
export PYTHONPATH=$path
export PYTHONDONTWRITEBYTECODE=1
# No plug-ins of the machine: only what the tests name.
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1

# Python itself is not instrumented, so the runtime has to be loaded before it. Programs that the tests
# start inherit it, which does no harm: each has the same runtime as its own first library.
preload=
case "${INVOKER_SANITIZER:-}" in
  asan)
    # libstdc++ too: AddressSanitizer looks for the function that throws when it starts, before Python has
    # loaded any C++. CPython keeps its memory until it exits, which is no leak of this project.
    preload="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libstdc++.so)"
    export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
    # CPython's own allocator would hide its blocks from the sanitizer.
    export PYTHONMALLOC=malloc
    ;;
  tsan)
    preload=$(gcc -print-file-name=libtsan.so)
    ;;
esac

options=()
if [ -n "${INVOKER_SANITIZER:-}" ]; then
  # A sanitizer writes to the process's stderr and may end it: what pytest had captured would be lost.
  options+=(--capture=sys)
fi
if [ -n "${XML_OUTPUT_FILE:-}" ]; then
  options+=("--junitxml=$XML_OUTPUT_FILE")
fi
exec env ${preload:+LD_PRELOAD="$preload"} /usr/bin/python3 -m pytest -p no:cacheprovider \
  --rootdir="$root" --basetemp="$TEST_TMPDIR/pytest" "${options[@]}" "$@"
