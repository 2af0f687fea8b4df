"""Coroutines that are dropped, cancelled or answered twice, objects that are coroutine functions, and too many that wait."""

import asyncio
import functools
import queue

import invoker
import pytest
from conftest import comes_true
from invoker._native import event_loop

# For servers in this very process.
PROVIDER = "tcp;ofi_rxm"


def serve(functions, **options):
    return invoker.serve(functions, provider=PROVIDER, **options)


def connect(server):
    return invoker.connect(server.address)


@pytest.fixture
def started(monkeypatch):
    """A queue of calls that coroutine functions have begun, each with its coroutine, which nothing runs."""
    calls = queue.Queue()
    monkeypatch.setattr(event_loop, "start", lambda coroutine, call: calls.put((coroutine, call)))
    return calls


async def number():
    return 5


NUMBER = invoker.typed("() -> i64")(number)


def test_a_call_whose_coroutine_is_dropped_fails(started):
    with serve({"number": NUMBER}) as server, connect(server) as client:
        future = client.typed("number").submit()
        coroutine, call = started.get(timeout=60)
        # The call waits for as long as something refers to it.
        assert client.ping() > 0 and not future.done()
        coroutine.close()
        del call
        error = future.exception(60)
        assert isinstance(error, invoker.FunctionFailed) and error.fate == "executed"
        assert "the function's coroutine was dropped before it ended" in str(error)
        assert server.calls == 1


@pytest.mark.parametrize("first", ["finish", "fail"])
def test_a_call_is_answered_once(started, first):
    with serve({"number": NUMBER}) as server, connect(server) as client:
        future = client.typed("number").submit()
        coroutine, call = started.get(timeout=60)
        coroutine.close()
        assert not call.cancelled() and call.facts() is not None
        answers = {"finish": lambda: call.finish(7), "fail": lambda: call.fail(KeyError("first"))}
        answers[first]()
        for answer in answers.values():
            with pytest.raises(ValueError, match="the call has been answered already"):
                answer()
        # Nothing waits for it any more.
        assert call.cancelled() and call.facts() is None
        if first == "finish":
            assert future.result() == 7
        else:
            with pytest.raises(invoker.FunctionFailed, match="KeyError: 'first'"):
                future.result()
        assert server.calls == 1


def test_a_coroutine_that_is_cancelled_fails_its_call_alone():
    begun = queue.Queue()

    async def wait():
        begun.put(asyncio.current_task())
        await asyncio.Event().wait()

    async def cancel_others():
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    functions = {
        "wait": invoker.typed("() -> None")(wait),
        "wait_for_objects": invoker.pickled(wait),
        "cancel_others": invoker.typed("() -> None")(cancel_others),
        "number": NUMBER,
    }
    with serve(functions) as server, connect(server) as client:
        typed, objects = client.typed("wait").submit(), client.remote("wait_for_objects").submit()
        for _ in range(2):
            begun.get(timeout=60)
        client.typed("cancel_others")()
        with pytest.raises(invoker.FunctionFailed, match="CancelledError") as failed:
            typed.result(60)
        assert failed.value.fate == "executed"
        # The function has raised it: the caller has cancelled nothing.
        with pytest.raises(invoker.RemoteError, match="CancelledError"):
            objects.result(60)
        assert not objects.cancelled() and client.typed("number")() == 5


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_a_coroutine_that_is_cancelled_before_it_begins_fails_its_call():
    ran = []

    async def run():
        ran.append(1)

    async def cancel_the_next():
        # A task begins one turn after it is made, so this one sees it before.
        while len(asyncio.all_tasks()) == 1:
            await asyncio.sleep(0)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    functions = {"run": invoker.typed("() -> None")(run), "next": invoker.typed("() -> None")(cancel_the_next)}
    with serve(functions) as server, connect(server) as client:
        cancels = client.typed("next").submit()
        with pytest.raises(invoker.FunctionFailed, match="was dropped before it ended"):
            client.typed("run")()
        assert cancels.result(60) is None and not ran
        assert client.typed("run")() is None and ran == [1]


class Adder:
    """Is called like a coroutine function."""

    def __init__(self, step):
        self.step = step

    async def __call__(self, number):
        await asyncio.sleep(0)
        return number + self.step


class Reverser:
    """The same, of bytes."""

    async def __call__(self, request):
        await asyncio.sleep(0)
        return bytes(request)[::-1]


def test_an_object_that_is_called_like_a_coroutine_function_is_one():
    functions = {
        "bytes": Reverser(),
        "part": functools.partial(Reverser()),
        "objects": invoker.pickled(Adder(1)),
        "typed": invoker.typed("(i64) -> i64")(Adder(2)),
        "typed_part": invoker.typed("(i64) -> i64")(functools.partial(Adder(3))),
    }
    with serve(functions) as server, connect(server) as client:
        assert bytes(client.call("bytes", b"abc")) == bytes(client.call("part", b"abc")) == b"cba"
        assert client.remote("objects")(5) == 6
        assert client.typed("typed")(5) == 7 and client.typed("typed_part")(5) == 8


def test_a_lease_awaits_such_an_object(worker):
    with connect(worker) as client, client.lease() as lease:
        assert lease.register(Adder(1))(5) == 6
        assert lease.register(invoker.typed("(i64) -> i64")(Adder(2)), name="typed-adder")(5) == 7


def test_more_waiting_calls_than_there_is_room_for_are_refused_and_the_session_goes_on():
    """Their callers wait no more, but the worker has not answered them."""
    begun = queue.Queue()
    released = []

    async def wait(request):
        event = asyncio.Event()
        released.append(event)
        begun.put(1)
        await event.wait()

    async def release(request):
        for event in released:
            event.set()

    with serve({"wait": wait, "release": release}, window=65536) as server, connect(server) as client:
        large = {"response_capacity": 30_000}
        for _ in range(2):
            future = client.submit("wait", bytes(30_000), **large)
            begun.get(timeout=60)
            assert future.cancel()
        for call in (lambda: client.call("wait", bytes(30_000), **large), client.submit("wait", bytes(30_000), **large).result):
            with pytest.raises(invoker.ResourceExhausted, match="calls that timed out and have not been answered") as refused:
                call()
            assert (refused.value.status, refused.value.fate) == ("RESOURCE_EXHAUSTED", "not_sent")
        # A small one finds room, and the answers make room for large ones.
        client.call("release", b"", response_capacity=1)
        assert comes_true(lambda: client.call("release", bytes(60_000), response_capacity=60_000) == b"")
        assert begun.empty() and len(released) == 2
