"""A hot call does no more than its budget says, and nothing that no hot call may do."""

import json
import os

import pytest

import hot_call

BINARY = "tests/budget/hot_call"
FUNCTIONS = "bench/functions/libbench_functions.so"
BUDGET = json.loads(hot_call.BUDGET.read_text())

# Instructions a call: a turn that the machine interrupts for a millisecond tells its usage at once, and not with
# others, which takes some hundreds, of one call in thousands.
INTERRUPTED = 1.0

pytestmark = pytest.mark.skipif(
    bool(os.environ.get("INVOKER_SANITIZER")) or bool(os.environ.get("INVOKER_OPTIMIZED")),
    reason="counts are of the code as it is built by default",
)


@pytest.fixture(scope="module", params=hot_call.PROVIDERS)
def counted(request):
    return request.param, hot_call.count(BINARY, FUNCTIONS, request.param)


def test_takes_no_more_instructions_than_its_budget(counted):
    provider, result = counted
    now = hot_call.budget_of(result)
    assert now["instructions"] <= BUDGET[provider]["instructions"] + INTERRUPTED, (
        f"a hot call with {provider} takes {now['instructions']} instructions of ours, and its budget is "
        f"{BUDGET[provider]['instructions']}. Where they are:\n{hot_call.table(result)}\n"
        "tests/budget/hot_call_report --lines says more. If it has to be more: hot_call_report --record"
    )


def test_the_budget_is_not_much_more_than_it_takes(counted):
    provider, result = counted
    assert hot_call.budget_of(result)["instructions"] >= 0.95 * BUDGET[provider]["instructions"], (
        f"a hot call with {provider} takes less than its budget by more than 5 %, so that what it gained could "
        "be lost again unseen: tests/budget/hot_call_report --record"
    )


def test_reads_the_clock_no_more_often_than_its_budget(counted):
    provider, result = counted
    assert hot_call.budget_of(result)["clock_reads"] <= BUDGET[provider]["clock_reads"]


def test_does_nothing_that_no_hot_call_may_do(counted):
    provider, result = counted
    # What a call does, each run finds. What comes of a thread that has lost its core, which then waits or yields, is not there
    # each time.
    for _ in range(4):
        if not result.forbidden():
            break
        result = hot_call.count(BINARY, FUNCTIONS, provider)
    assert result.forbidden() == {}


def test_counts_the_same_again(counted):
    provider, result = counted
    again = hot_call.count(BINARY, FUNCTIONS, provider)
    for before, after in zip(result.threads, again.threads):
        difference = before.instructions.total() - after.instructions.total()
        assert abs(difference) <= INTERRUPTED * result.calls


def test_counts_what_is_wasted():
    result = hot_call.count(BINARY, FUNCTIONS, "shm", calls=64, extra=["--waste"])
    found = result.forbidden()
    assert sum(n for name, n in found["allocations"].items() if name.startswith("operator new")) == 64
    assert sum(found["locks"].values()) == 64
    assert found["system calls"] == {"sys_getppid": 64}
    plain = hot_call.count(BINARY, FUNCTIONS, "shm", calls=64)
    assert result.per_call() > plain.per_call() + 10


@pytest.mark.parametrize(
    "kind, function",
    [
        ("allocations", "operator new(unsigned long)"),
        ("allocations", "malloc"),
        ("locks", "pthread_mutex_lock@@GLIBC_2.2.5"),
        ("locks", "absl::debian3::Mutex::ReaderLock()"),
        ("look-ups", "absl::debian3::container_internal::raw_hash_set<int>::find(int const&)"),
        ("look-ups", "std::_Rb_tree_increment(std::_Rb_tree_node_base*)"),
        ("string functions", "std::__cxx11::basic_string<char>::_M_append(char const*, unsigned long)"),
        ("string functions", "strlen"),
    ],
)
def test_knows_what_no_hot_call_may_do(kind, function):
    lines = ["ob=/a/program", "fn=Hot()", "0 5", f"cfn={function}", "calls=3 0", "0 30"]
    thread = hot_call.parse_thread(lines)
    result = hot_call.Count(1, thread, hot_call.Thread(), {})
    assert result.forbidden() == {kind: {function: 3}}
    assert result.instructions() == 5


def test_leaves_out_the_fabric_and_what_it_calls():
    lines = ["ob=/usr/lib/libfabric.so.1", "fn=fi_post", "0 5", "cfn=malloc", "calls=1 0", "0 30"]
    result = hot_call.Count(1, hot_call.parse_thread(lines), hot_call.Thread(), {})
    assert result.forbidden() == {}
    assert result.instructions() == 0


def test_counts_system_calls_between_the_marks_only():
    log = [
        "SYSCALL[9,1](39) sys_getpid ()",
        "SYSCALL[9,1](124) sys_getsid ( 0 )[sync] --> Success(0x1) ",
        "SYSCALL[9,1](202) sys_futex ( 0xabc, 128, 5, 0x0, 0x0 ) --> [async] ... ",
        "SYSCALL[9,2](202) sys_futex ( 0xdef, 128, 5, 0x0, 0x0 ) --> [async] ... ",
        "SYSCALL[9,3](1) sys_write ( 1, 0xabc, 5 )",
        "SYSCALL[9,1](124) sys_getsid ( 0 )[sync] --> Success(0x1) ",
        "SYSCALL[9,1](3) sys_close ( 3 )",
    ]
    assert hot_call.parse_syscalls(log, "0xabc", {1, 2}) == {"sys_futex": 1}
