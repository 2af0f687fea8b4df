"""Several servers as one: least-loaded dispatch, and what happens when one goes."""

import asyncio
import concurrent.futures
import itertools
import sys
import threading
import time
from concurrent.futures import Future

import invoker
import pytest
from conftest import Server
from invoker._calls import session_group
from invoker._calls.session_group import SessionGroup


def raise_unavailable():
    raise invoker.Unavailable("what it needs has gone")


class Worker:
    """A server of this process whose function waits until it is let go."""

    def __init__(self, name):
        self.name = name
        self.entered = threading.Semaphore(0)
        self.leave = threading.Event()
        self.server = invoker.serve(
            {
                "name": lambda request: name.encode(),
                "wait": self.wait,
                "only." + name: bytes,
                "add": invoker.pickled(lambda a, b: (name, a + b)),
                "away": invoker.pickled(raise_unavailable),
            }
        )

    def wait(self, request):
        self.entered.release()
        self.leave.wait()
        return self.name.encode()

    def close(self):
        self.leave.set()
        self.server.close()


@pytest.fixture
def workers():
    running = [Worker("a"), Worker("b")]
    yield running
    for worker in running:
        worker.close()


@pytest.fixture
def group(workers):
    with invoker.connect(", ".join(worker.server.address for worker in workers)) as opened:
        yield opened


def wait_until_under_way(calls, group):
    """A result is there a little before its session counts as free."""
    while sum(len(session.under_way) for session in group._calls.members) != calls:
        time.sleep(0.001)


def test_calls_go_to_the_least_loaded(workers, group):
    assert len(group) == 2 and "of 2" in repr(group)
    first = group.submit("wait")
    waiting = bytes(group.submit("name").result())
    wait_until_under_way(1, group)
    # The other one, again and again.
    assert all(bytes(group.call("name")) == waiting for _ in range(5))
    for worker in workers:
        worker.leave.set()
    assert bytes(first.result()) != waiting
    wait_until_under_way(0, group)
    # With none under way, each in turn.
    assert {bytes(group.call("name")) for _ in range(2)} == {b"a", b"b"}


def test_every_way_of_calling(group):
    assert {bytes(x) for x in group.map("name", [b""] * 20)} <= {b"a", b"b"}
    name = group.function("name")
    assert name.name == "name" and bytes(name()) in (b"a", b"b")
    assert bytes(name.submit(b"").result()) in (b"a", b"b")
    assert bytes(asyncio.run(name.acall())) in (b"a", b"b")
    assert bytes(asyncio.run(group.acall("name"))) in (b"a", b"b")
    add = group.remote("add")
    assert add(1, b=2)[1] == 3 and add.submit(1, 2).result()[1] == 3
    assert asyncio.run(add.acall(1, 2))[1] == 3
    assert {add(1, 2)[0] for _ in range(2)} == {"a", "b"}
    assert group.ping(100) > 0 and group.max_payload > 0
    assert group.capacity().cores == 0


def test_only_what_all_have_is_listed(group):
    assert group.functions() == ["name", "wait", "add", "away"]
    with pytest.raises(invoker.NotFound):
        group.function("only.a")


def test_errors_of_calls_are_the_callers(group):
    for _ in range(2):
        with pytest.raises(TypeError):
            group.remote("add")(1, None)
        with pytest.raises(invoker.NotFound):
            group.submit("nope")


def test_a_function_that_raises_unavailable_does_not_take_its_worker_away(group):
    away = group.remote("away")
    for _ in range(4):
        with pytest.raises(invoker.Unavailable, match="what it needs"):
            away()
        with pytest.raises(invoker.Unavailable, match="what it needs"):
            away.submit().result()
        with pytest.raises(invoker.Unavailable, match="what it needs"):
            asyncio.run(away.acall())
    assert {bytes(group.call("name")) for _ in range(2)} == {b"a", b"b"}


def test_a_lease_is_taken_where_the_most_cores_are_free_and_its_terms_can_be_met():
    plain = Server("auto", "--lease-cores=3")
    python = Server("auto", "--lease-cores=2", "--allow-upload=python", "--python=/usr/bin/python3")
    try:
        with invoker.connect("%s,%s" % (python.address, plain.address)) as group:
            first = group.lease(executors=2, python=False)
            assert first.server == plain.address
            # One is free there, and two here.
            second = group.lease(python=False)
            assert second.server == python.address
            second.close()
            first.close()
            # The one with more has no Python.
            with group.lease(python=True) as lease:
                assert lease.server == python.address
            with pytest.raises(invoker.InvalidArgument):
                group.lease(executors=4)
            with group.lease(executors=3), group.lease(executors=2, python=True) as last:
                with pytest.raises(invoker.ResourceExhausted):
                    group.lease()
                closing = threading.Timer(0.2, last.close)
                closing.start()
                with pytest.raises(invoker.ResourceExhausted):
                    group.lease(executors=3, wait=0.1)
                closing.join()
                with group.lease(python=True, wait=60) as waited:
                    assert waited.server == python.address
    finally:
        plain.stop()
        python.stop()


def test_a_server_that_has_gone_gets_no_more_calls(workers, group):
    workers[0].close()
    failed = 0
    for _ in range(10):
        try:
            assert bytes(group.call("name")) == b"b"
        except invoker.Unavailable:
            failed += 1
    assert failed <= 1
    workers[1].close()
    with pytest.raises(invoker.Unavailable):
        for _ in range(3):
            group.call("name")


class Session:
    """A session whose calls fail like this, or return b"here"."""

    # To nowhere: nothing can be connected to again.
    way = None

    def __init__(self, error=None):
        self.error = error
        self.calls = 0

    def call(self, name, data=b"", **options):
        self.calls += 1
        if self.error is not None:
            raise self.error
        return b"here"

    def handle(self, name):
        return name

    def close(self):
        pass

    def end_calls(self):
        pass

    def watch(self, bell):
        pass

    def has_ended(self):
        return False


@pytest.mark.parametrize(
    "error", [invoker.Unavailable, invoker.DataLoss, invoker.Aborted, invoker.Internal]
)
def test_a_session_that_has_ended_gets_no_more_calls_however_it_has(error):
    ended, live = Session(error("the session has ended", fate="not_sent")), Session()
    group = SessionGroup([ended, live])
    # With a single further try: it must not go where the first one went.
    for _ in range(10):
        assert group.call("name", retry=1) == b"here"
    assert (ended.calls, live.calls) == (1, 10)


@pytest.mark.parametrize(
    "error",
    [
        invoker.Internal("of the function", fate="executed"),
        invoker.NotFound("no such function", fate="not_executed"),
        invoker.DeadlineExceeded("late", fate="maybe_executed"),
    ],
)
def test_what_says_nothing_of_the_session_costs_it_no_calls(error):
    session = Session(error)
    group = SessionGroup([session, Session()])
    for _ in range(4):
        try:
            group.call("name")
        except invoker.InvokerError:
            pass
    assert session.calls == 2


class Prompt(Session):
    """Whose calls have ended, one way or the other, when they are started."""

    def start(self, name, data, **options):
        future = concurrent.futures.Future()
        try:
            future.set_result(self.call(name, data))
        except invoker.InvokerError as error:
            future.set_exception(error)
        return future

    async def acall(self, name, data, **options):
        return self.call(name, data)


def run_at_once(coroutine):
    """The result of one that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    finally:
        coroutine.close()


def is_busy(group):
    return any(member.under_way for member in group.members)


WAYS = {
    "call": lambda group: group.call("name"),
    "submit": lambda group: group.submit("name").result(),
    "acall": lambda group: run_at_once(group.acall("name")),
}


tried_twice_more = pytest.mark.parametrize(
    "call",
    [
        lambda group: group.call("name", retry=2),
        lambda group: group.submit("name", retry=2).result(),
        lambda group: run_at_once(group.acall("name", retry=2)),
    ],
)


@tried_twice_more
@pytest.mark.parametrize("last", ["not_sent", "not_executed"])
def test_the_fate_of_a_call_is_that_of_all_its_tries(call, last):
    first = Prompt(invoker.Unavailable("gone", fate="maybe_executed"))
    second = Prompt(invoker.Unavailable("gone as well", fate=last))
    with pytest.raises(invoker.Unavailable, match="gone as well") as end:
        call(SessionGroup([first, second]))
    assert (first.calls, second.calls) == (1, 1)
    assert end.value.fate == "maybe_executed"


@tried_twice_more
def test_the_fate_is_that_of_all_tries_also_when_no_session_is_left_for_the_next(call, monkeypatch):
    group = SessionGroup([Prompt(invoker.Unavailable("gone", fate="maybe_executed"))], reconnect=True)
    try:
        # The last one has gone between the look whether there is one and its being taken.
        monkeypatch.setattr(group, "others_left", lambda: True)
        with pytest.raises(invoker.Unavailable, match="none of the 1 sessions is left") as end:
            call(group)
        assert end.value.fate == "maybe_executed"
    finally:
        group.close()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("error", [None, invoker.NotFound("no such function", fate="not_executed")])
def test_ctrl_c_between_any_two_steps_of_a_call_leaves_its_session_free(way, error):
    group = SessionGroup([Prompt(error), Prompt(error)])

    def run_interrupted(step):
        steps = itertools.count()

        def interrupt(frame, event, argument):
            # The interpreter runs signal handlers where a function begins, and where it comes back from one of C.
            if frame.f_code.co_filename != session_group.__file__ or event not in ("call", "c_return"):
                return
            if next(steps) == step:
                raise KeyboardInterrupt

        sys.setprofile(interrupt)
        try:
            WAYS[way](group)
        except (KeyboardInterrupt, invoker.NotFound) as end:
            return isinstance(end, KeyboardInterrupt)
        finally:
            sys.setprofile(None)
        return False

    step = 0
    while run_interrupted(step):
        assert not is_busy(group), step
        step += 1
    assert step > 5 and not is_busy(group)


@pytest.mark.parametrize("way", WAYS)
def test_an_exception_that_is_kept_keeps_no_session_busy(way):
    group = SessionGroup([Prompt(invoker.NotFound("no such function", fate="not_executed"))])
    with pytest.raises(invoker.NotFound) as kept:
        WAYS[way](group)
    assert kept.traceback and not is_busy(group)


def test_a_call_counts_until_it_is_known_that_its_session_has_gone():
    future = Future()
    group = SessionGroup([Session()])
    gone = []
    group._give_back = lambda place: gone.append(place.member.gone)
    group._start(lambda client: future)
    future.set_exception(invoker.Unavailable("the session has ended", fate="not_sent"))
    assert gone == [True]


def test_all_or_none_are_connected(workers):
    with pytest.raises(invoker.InvokerError):
        invoker.connect(workers[0].server.address + ",nowhere")
    with pytest.raises(invoker.ResourceExhausted):
        invoker.connect(",".join(worker.server.address for worker in workers)).lease()


def test_a_function_learns_that_its_call_was_cancelled():
    entered = threading.Event()
    told = threading.Event()
    may_return = threading.Semaphore(0)

    def ask(request):
        entered.set()
        while not invoker.cancelled():
            time.sleep(0.001)
        told.set()
        # An answer that comes just before the caller has looked at its clock is an answer.
        may_return.acquire()
        return b""

    assert not invoker.cancelled()
    with invoker.serve({"ask": ask}) as server, invoker.connect(server.address) as client:
        future = client.submit("ask")
        entered.wait()
        assert future.cancel()
        told.wait()
        may_return.release()
        told.clear()
        entered.clear()
        timeout = 0.05
        # On a busy machine it may not begin before.
        while not entered.is_set():
            with pytest.raises(TimeoutError):
                client.call("ask", timeout=timeout)
            timeout *= 4
        told.wait()
        may_return.release()
