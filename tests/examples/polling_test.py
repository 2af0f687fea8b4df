"""What an executor does while nothing is called: it polls, or it does not, as its lease says."""

import math
import time
from typing import NamedTuple

import invoker
import pytest

# There is nothing to wait for when nothing is to happen.
IDLE_SECONDS = 1.5


class Idle(NamedTuple):
    """What the bill has grown by since the first call, and the bill."""

    lease_time: float
    polling_time: float
    cpu_time: float
    bill: invoker.Usage


def idle_lease(server, calls=1, **terms):
    """A lease that makes some calls, is idle after each, and then ends."""
    # Beside other tests a server may be silent for longer than by default.
    with invoker.connect(server.address, peer_timeout=20.0) as client:
        with client.lease(python=False, **terms) as lease:
            assert bytes(lease.call("echo", b"first", timeout=30)) == b"first"
            # Neither the executor's start counts, nor the session's.
            first = lease.usage
            for i in range(1, calls):
                time.sleep(IDLE_SECONDS / calls)
                assert bytes(lease.call("echo", b"%d" % i, timeout=30)) == b"%d" % i
            time.sleep(IDLE_SECONDS / calls)
            bill = lease.close()
    return Idle(
        bill.lease_time - first.lease_time,
        bill.polling_time - first.polling_time,
        bill.cpu_time - first.cpu_time,
        bill,
    )


@pytest.mark.parametrize(
    "terms", [{"polling": "hot"}, {"hot_timeout": math.inf}], ids=str
)
def test_a_hot_executor_polls_all_the_time(server, terms):
    idle = idle_lease(server, **terms)
    # By the wall clock: others that use the core meanwhile make no difference.
    assert idle.polling_time > 0.5 * idle.lease_time, idle


@pytest.mark.parametrize(
    "terms",
    [
        {"polling": "warm"},
        {"hot_timeout": 0.0},
        {"hot_timeout": 0.01},
    ],
    ids=str,
)
def test_another_executor_sleeps_and_wakes_for_each_call(server, terms):
    idle = idle_lease(server, calls=5, **terms)
    assert idle.bill.calls == 5
    # By the processor's: one that waits for its turn on a core is not asleep, and uses nothing either.
    assert idle.cpu_time < 0.3 * idle.lease_time, idle


def test_an_executor_that_sleeps_uses_less_of_the_processor(server):
    hot = idle_lease(server, polling="hot")
    warm = idle_lease(server, polling="warm")
    assert warm.cpu_time < hot.cpu_time, (warm, hot)


def test_an_adaptive_executor_polls_after_each_call_for_as_long_as_it_was_told(server):
    calls = 5
    hot_timeout = 0.02
    bill = idle_lease(server, calls=calls, hot_timeout=hot_timeout).bill
    assert bill.polling_time >= calls * hot_timeout, bill


def test_the_terms_say_how_it_polls(server):
    with invoker.connect(server.address) as client:
        with client.lease(python=False, polling="adaptive", hot_timeout=0.25) as lease:
            assert lease.terms["polling"] == "adaptive" and lease.terms["hot_timeout"] == 0.25
        with client.lease(python=False, polling="warm") as lease:
            assert lease.terms["polling"] == "warm"
