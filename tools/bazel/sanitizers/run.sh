#!/usr/bin/env bash
# Runs a command with the sanitizers' options: run.sh COMMAND [ARGUMENT...]
# Each variable is appended to: what a test set itself is kept.
set -u
here=$(dirname "$(readlink -f "$0")")

# Libraries that tests put before a server's own (LD_PRELOAD) stand before the sanitizer's, and allocate nothing by then.
asan=verify_asan_link_order=0:detect_leaks=1:detect_stack_use_after_return=1:strict_init_order=1:check_initialization_order=1
lsan=suppressions=$here/lsan.supp:print_suppressions=0
# The system's libraries are not instrumented: what they touch themselves says nothing of this project. Functions that exit are
# not to take a second for it, which is beyond a call limit.
tsan=suppressions=$here/tsan.supp:print_suppressions=0:ignore_noninstrumented_modules=1:second_deadlock_stack=1:atexit_sleep_ms=0
ubsan=suppressions=$here/ubsan.supp:print_stacktrace=1:halt_on_error=1

export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}$asan"
export LSAN_OPTIONS="${LSAN_OPTIONS:+$LSAN_OPTIONS:}$lsan"
export TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS:}$tsan"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:+$UBSAN_OPTIONS:}$ubsan"
exec "$@"
