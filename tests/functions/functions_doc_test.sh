#!/bin/bash
# docs/guide/functions.md tells people what to write and which commands to build it with. Does both, word for
# word, and calls the results.

set -euo pipefail

doc=$PWD/docs/guide/functions.md
call=$PWD/tests/functions/call_function
# A checkout's include path.
export INVOKER=$TEST_TMPDIR/checkout
mkdir -p "$INVOKER/src/include"
ln -s "$PWD/src/invoke" "$INVOKER/src/include/invoker"

# block LANGUAGE [N]: the N-th code block in that language, the first by default.
block() {
  awk -v fence="\`\`\`$1" -v wanted="${2:-1}" '
    $0 == "```" { inside = 0 }
    inside { print }
    $0 == fence { inside = (++seen == wanted) }' "$doc"
}

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

cd "$TEST_TMPDIR"
block cpp > arrays.cc
block cpp 3 > reverse.cc
block c > reverse_c.c
block sh > build.sh
[[ $(grep -c '^g' build.sh) == 3 ]] || fail "expected two g++ and a gcc command, got: $(cat build.sh)"
sh -eux build.sh

[[ $(printf 'hello' | "$call" ./libreverse.so reverse) == olleh ]] || fail "reverse"
[[ $(printf 'hello' | "$call" ./libreverse_c.so reverse_c) == olleh ]] || fail "reverse_c"
# A path without a slash is in the current directory.
[[ $(printf 'hello' | "$call" libreverse.so reverse) == olleh ]] || fail "path without a slash"

if message=$("$call" ./libreverse.so reverse < /dev/null 2>&1); then fail "empty input was accepted"; fi
[[ $message == *"there is nothing to reverse"* ]] || fail "unexpected message: $message"

# The macro must survive the options that hide or drop whatever seems unused.
g++ -std=c++17 -O3 -Wall -Wextra -Werror -shared -fPIC -fvisibility=hidden -fvisibility-inlines-hidden \
  -ffunction-sections -fdata-sections -Wl,--gc-sections -flto -I "$INVOKER/src/include" reverse.cc -o libhidden.so
[[ $(printf 'hello' | "$call" ./libhidden.so reverse) == olleh ]] || fail "hidden visibility"

# Nothing that two libraries in one process would share.
if nm libreverse.so | grep ' u .*invoker'; then fail "unique symbols"; fi
