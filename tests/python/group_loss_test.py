"""Servers of a group that go, and come back."""

import asyncio
import concurrent.futures
import threading
import time

import invoker
import pytest
from conftest import Server, comes_true, loopback_address_of_its_own, microseconds


@pytest.fixture
def doomed(own_server):
    """A second server of own_server's kind, to be killed."""
    running = Server(own_server.provider, listen=loopback_address_of_its_own())
    yield running
    if running.process.returncode is None:
        running.kill()


def has_ended(client):
    """Whether its session has."""
    try:
        client.ping(timeout=60)
        return False
    except invoker.Unavailable:
        return True


def test_a_group_connects_again_to_a_server_that_is_back(own_server, doomed):
    with invoker.connect("%s,%s" % (own_server.address, doomed.address)) as group:
        lost = group.clients[1]
        doomed.kill()
        assert comes_true(lambda: has_ended(lost))
        # No call has to find it out.
        for _ in range(10):
            assert group.call("echo", b"left") == b"left"
        back = doomed.start_again()
        try:
            assert comes_true(lambda: group.clients[1] is not lost)
            for _ in range(4):
                assert group.call("echo", b"both") == b"both"
            assert group.clients[1].call("echo", b"new") == b"new"
        finally:
            back.kill()


def test_a_server_that_is_restarted_while_nobody_calls_costs_no_call(own_server, doomed):
    with invoker.connect("%s,%s" % (own_server.address, doomed.address)) as group:
        lost = group.clients[1]
        doomed.kill()
        back = doomed.start_again()
        try:
            assert comes_true(lambda: group.clients[1] is not lost)
            for _ in range(4):
                assert group.call("echo", b"x") == b"x"
        finally:
            back.kill()


def test_without_reconnecting_a_lost_server_costs_no_call_either(own_server, doomed):
    with invoker.connect("%s,%s" % (doomed.address, own_server.address), reconnect=False) as group:
        lost = group.clients[0]
        doomed.kill()
        assert comes_true(lambda: has_ended(lost))
        for _ in range(4):
            assert group.call("echo", b"x") == b"x"


def test_a_group_of_one_outlives_a_restart(own_server):
    with invoker.connect(own_server.address, reconnect=True) as group:
        assert isinstance(group, invoker.Group) and len(group) == 1
        assert group.call("echo", b"before") == b"before"
        own_server.kill()
        with pytest.raises(invoker.Unavailable):
            while True:
                group.call("echo", b"x")
        with pytest.raises(invoker.Unavailable, match="connects again") as caught:
            group.call("echo", b"x")
        assert caught.value.fate == "not_sent"
        again = own_server.start_again()
        try:
            while True:
                try:
                    assert group.call("echo", b"after") == b"after"
                    break
                except invoker.Unavailable:
                    time.sleep(0.005)
        finally:
            again.stop()


def test_a_callback_may_wait_for_its_server_to_be_back_though_others_are_due(own_server):
    again = None
    saw_it = []
    ended = threading.Semaphore(0)

    def wait(future):
        saw_it.append(comes_true(lambda: group.call("echo", b"back?") == b"back?"))
        ended.release()

    try:
        with invoker.connect(own_server.address, reconnect=True) as group:
            for _ in range(2):
                group.submit("test.sleep", microseconds(60_000_000)).add_done_callback(wait)
            own_server.kill()
            again = own_server.start_again()
            ended.acquire()
            ended.acquire()
            assert saw_it == [True, True]
    finally:
        if again is not None:
            again.kill()


def test_a_callback_may_wait_for_another_server_to_be_back(own_server, doomed):
    again = []
    saw_them = []
    ended = threading.Event()

    def wait(future):
        saw_them.append(comes_true(lambda: all(client.ping() > 0 for client in group.clients)))
        ended.set()

    try:
        with invoker.connect("%s,%s" % (own_server.address, doomed.address)) as group:
            group.submit("test.sleep", microseconds(60_000_000)).add_done_callback(wait)
            # Nobody calls the other one while it is away, so that this is to find it out.
            group.submit("test.sleep", microseconds(60_000_000))
            own_server.kill()
            doomed.kill()
            again.append(own_server.start_again())
            assert comes_true(lambda: group.clients[0].ping() > 0)
            again.append(doomed.start_again())
            ended.wait()
            assert saw_them == [True]
            assert {group.call("echo", b"x").tobytes() for _ in range(4)} == {b"x"}
    finally:
        for server in again:
            server.kill()


def test_a_call_that_is_tried_again_waits_for_room_by_itself(own_server, doomed, rendezvous):
    with invoker.connect("%s,%s" % (own_server.address, doomed.address), reconnect=False) as group:
        # A window has room for one such answer.
        large = {"response_capacity": group.max_payload // 2 + 1}
        small = {"response_capacity": 1}
        keeps = group.submit("test.rendezvous", rendezvous.path, **large)
        # Each of the other calls goes where fewer are under way: to the doomed one first.
        before = [
            group.submit("test.rendezvous", rendezvous.path, response_capacity=4),
            group.submit("echo", b"1", **small),
        ]
        tried = group.submit("echo", b"tried", retry=1, **large)
        after = [group.submit("echo", b"2", **small), group.submit("echo", b"3", **small)]
        for _ in range(2):
            rendezvous.wait_until_running()
        doomed.kill()
        # Behind the one that runs, the fabric may have taken no more.
        assert before[0].exception(60).fate == "maybe_executed" and after[1].exception(60).fate != "not_executed"
        assert not (keeps.done() or tried.done())
        rendezvous.release()
        assert tried.result(60) == b"tried"
        assert keeps.result(60) == b"held" and before[1].result(60) == b"1" and after[0].result(60) == b"2"


WAYS_OVER_REAL_SERVERS = {
    "call": lambda group, *args, **options: group.call(*args, **options),
    "submit": lambda group, *args, **options: group.submit(*args, **options).result(),
    "acall": lambda group, *args, **options: asyncio.run(group.acall(*args, **options)),
}


@pytest.mark.parametrize("way", WAYS_OVER_REAL_SERVERS)
@pytest.mark.parametrize("retry", [0, 1])
def test_a_call_is_tried_again_only_if_its_caller_asks(own_server, doomed, rendezvous, way, retry):
    call = WAYS_OVER_REAL_SERVERS[way]
    addresses = "%s,%s" % (doomed.address, own_server.address)
    with invoker.connect(addresses, reconnect=False) as group, concurrent.futures.ThreadPoolExecutor(1) as thread:
        future = thread.submit(call, group, "test.rendezvous", rendezvous.path, retry=retry)
        rendezvous.wait_until_running()
        doomed.kill()
        if retry:
            rendezvous.wait_until_running()
            rendezvous.release()
            assert future.result(60) == b"held"
        else:
            error = future.exception(60)
            assert isinstance(error, invoker.Unavailable) and error.fate == "maybe_executed"
        # Functions' failures are their callers'.
        with pytest.raises(invoker.FunctionFailed):
            call(group, "test.fail", b"why", retry=5)
        assert list(group.map("echo", [b"a", b"b"], retry=2)) == [b"a", b"b"]
