"""What an executor does while nothing is called: it polls, or it does not, as its lease says."""

import math
import time

import invoker
import pytest

# There is nothing to wait for when nothing is to happen.
IDLE_SECONDS = 1.5


def bill_of_an_idle_lease(server, calls=1, **terms):
    """A lease that makes some calls, each after it has been idle, and then nothing."""
    with invoker.connect(server.address) as client:
        with client.lease(python=False, **terms) as lease:
            for i in range(calls):
                assert bytes(lease.call("echo", b"%d" % i, timeout=30)) == b"%d" % i
                time.sleep(IDLE_SECONDS / calls)
            return lease.close()


@pytest.mark.parametrize(
    "terms", [{"polling": "hot"}, {"hot_timeout": math.inf}], ids=str
)
def test_a_hot_executor_polls_all_the_time(server, terms):
    bill = bill_of_an_idle_lease(server, **terms)
    # By the wall clock: others that use the core meanwhile make no difference.
    assert bill.polling_time > 0.5 * bill.lease_time, bill


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
    bill = bill_of_an_idle_lease(server, calls=5, **terms)
    assert bill.calls == 5
    assert bill.polling_time < 0.3 * bill.lease_time, bill


def test_an_executor_that_sleeps_uses_less_of_the_processor(server):
    hot = bill_of_an_idle_lease(server, polling="hot")
    warm = bill_of_an_idle_lease(server, polling="warm")
    assert warm.cpu_time < hot.cpu_time, (warm, hot)


def test_an_adaptive_executor_polls_after_each_call_for_as_long_as_it_was_told(server):
    calls = 5
    hot_timeout = 0.02
    bill = bill_of_an_idle_lease(server, calls=calls, hot_timeout=hot_timeout)
    assert bill.polling_time >= calls * hot_timeout, bill


def test_the_terms_say_how_it_polls(server):
    with invoker.connect(server.address) as client:
        with client.lease(python=False, polling="adaptive", hot_timeout=0.25) as lease:
            assert lease.terms["polling"] == "adaptive" and lease.terms["hot_timeout"] == 0.25
        with client.lease(python=False, polling="warm") as lease:
            assert lease.terms["polling"] == "warm"
