"""Servers of a group that go, and come back."""

import asyncio
import concurrent.futures
import itertools
import threading
import time

import invoker
import pytest
from conftest import Server, loopback_address_of_its_own, microseconds
from invoker._calls import ends, reconnect, retry
from invoker._native import _invoker


@pytest.fixture
def doomed(own_server):
    """A second server of own_server's kind, to be killed."""
    running = Server(own_server.provider, listen=loopback_address_of_its_own())
    yield running
    if running.process.returncode is None:
        running.kill()


def comes_true(condition, seconds=60.0):
    """Waits until the condition does. False if it does not, or fails as long."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        try:
            if condition():
                return True
        except invoker.InvokerError:
            pass
        time.sleep(0.005)
    return False


def test_connecting_again_goes_on_whatever_a_try_ends_with():
    class Lost:
        tries = 0
        back = threading.Event()

        def ended_sessions(self):
            return []

        def connect_again(self, index, longest_step):
            self.tries += 1
            if self.tries == 1:
                raise MemoryError
            if self.tries == 2:
                raise OSError("no descriptors left")
            self.back.set()
            return True

    lost = Lost()
    reconnector = reconnect.Reconnector(lost, _invoker.Bell())
    reconnector.start()
    reconnector.lost(0)
    lost.back.wait()
    reconnector.stop()


def test_ends_go_on_whatever_a_callback_raises(caplog):
    def fail():
        raise SystemExit("a callback's own affair")

    running = ends.Ends()
    for _ in range(2 * ends._MOST_THREADS):
        running.run(fail)
    ended = threading.Event()
    running.run(ended.set)
    assert ended.wait(60)
    assert "callback" in caplog.text


def test_a_session_that_is_lost_while_it_is_being_replaced_is_replaced_again():
    class LostTwice:
        tries = 0
        again = threading.Event()

        def ended_sessions(self):
            return []

        def connect_again(self, index, longest_step):
            self.tries += 1
            if self.tries == 1:
                # The new one is in place, and the old one is being closed.
                reconnector.lost(index)
            else:
                self.again.set()
            return True

    lost = LostTwice()
    reconnector = reconnect.Reconnector(lost, _invoker.Bell())
    reconnector.start()
    reconnector.lost(0)
    assert lost.again.wait(60)
    reconnector.stop()


def test_the_thread_that_connects_again_ends_with_its_group():
    class Lost:
        back = threading.Event()

        def ended_sessions(self):
            return []

        def connect_again(self, index, longest_step):
            self.back.set()
            return True

    lost = Lost()
    reconnector = reconnect.Reconnector(lost, _invoker.Bell())
    reconnector.start()
    reconnector.lost(0)
    lost.back.wait()
    del lost
    reconnector._thread.join(60)
    assert not reconnector._thread.is_alive()


def has_heard(group, index):
    """Whether calls go elsewhere, since the session has ended."""
    group._calls.ended_sessions()
    return group._calls.members[index].gone


def test_a_group_connects_again_to_a_server_that_is_back(own_server, doomed):
    with invoker.connect("%s,%s" % (own_server.address, doomed.address)) as group:
        lost = group.clients[1]
        doomed.kill()
        assert comes_true(lambda: has_heard(group, 1))
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
        doomed.kill()
        assert comes_true(lambda: has_heard(group, 0))
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


def room_is_waited_for(group, calls=1):
    """An event that is set when so many calls of the group's, tried again, wait for room."""
    waits = threading.Event()
    add = group._calls.waiting.add
    left = itertools.count(calls - 1, -1)

    def note(attempt):
        add(attempt)
        if next(left) == 0:
            waits.set()

    group._calls.waiting.add = note
    return waits


def test_a_call_that_is_tried_again_waits_for_room_by_itself(own_server, doomed, rendezvous):
    with invoker.connect("%s,%s" % (own_server.address, doomed.address), reconnect=False) as group:
        waits = room_is_waited_for(group)
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
        assert waits.wait(60)
        assert not (keeps.done() or tried.done())
        rendezvous.release()
        assert tried.result(60) == b"tried"
        assert keeps.result(60) == b"held" and before[1].result(60) == b"1" and after[0].result(60) == b"2"


def test_a_call_that_is_tried_again_waits_for_room_no_longer_than_it_has_time(
    own_server, doomed, rendezvous, monkeypatch
):
    with invoker.connect("%s,%s" % (own_server.address, doomed.address), reconnect=False) as group:
        waits = room_is_waited_for(group)
        large = {"response_capacity": group.max_payload // 2 + 1}
        keeps = group.submit("test.rendezvous", rendezvous.path, **large)
        tried = group.submit("test.rendezvous", rendezvous.path, retry=1, timeout=3600, **large)
        for _ in range(2):
            rendezvous.wait_until_running()
        doomed.kill()
        assert waits.wait(60)
        assert not tried.done()

        class Later:
            """The clock when its time is over."""

            @staticmethod
            def monotonic():
                return time.monotonic() + 3600

        monkeypatch.setattr(retry, "time", Later)
        error = tried.exception(60)
        # By the first try.
        assert isinstance(error, invoker.DeadlineExceeded) and error.fate == "maybe_executed"
        assert not keeps.done()
        rendezvous.release()
        assert keeps.result(60) == b"held"


def test_what_is_done_at_the_end_of_a_call_that_waited_for_room_holds_up_no_other(
    own_server, doomed, rendezvous, monkeypatch
):
    with invoker.connect("%s,%s" % (own_server.address, doomed.address), reconnect=False) as group:
        waits = room_is_waited_for(group, calls=2)
        # Beside the first there is room for no other; without it, for two.
        most = group.max_payload
        keeps = group.submit("test.rendezvous", rendezvous.path, response_capacity=most * 3 // 4)
        part = {"retry": 1, "response_capacity": most * 2 // 5}
        late = group.submit("test.rendezvous", rendezvous.path, timeout=3600, **part)
        group.submit("echo", b"so that the next one goes to the doomed one, too", response_capacity=1)
        in_time = group.submit("echo", b"in time", **part)
        for _ in range(2):
            rendezvous.wait_until_running()
        then = []
        late.add_done_callback(lambda _: then.append(in_time.result().tobytes()))
        done = threading.Event()
        late.add_done_callback(lambda _: done.set())
        doomed.kill()
        assert waits.wait(60)

        class Later:
            """The clock when the time of one of them is over."""

            @staticmethod
            def monotonic():
                return time.monotonic() + 3600

        monkeypatch.setattr(retry, "time", Later)
        assert isinstance(late.exception(60), invoker.DeadlineExceeded)
        rendezvous.release()
        assert in_time.result(60) == b"in time" and keeps.result(60) == b"held"
        assert done.wait(60) and then == [b"in time"]


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
