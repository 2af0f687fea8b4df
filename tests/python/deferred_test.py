"""Functions that answer later: coroutines, and functions with a concurrency."""

import asyncio
import gc
import socket
import threading

import invoker
import numpy
import pytest
from conftest import run_script

# For servers in this very process.
PROVIDER = "tcp;ofi_rxm"


def serve(functions, **options):
    return invoker.serve(functions, provider=PROVIDER, **options)


def connect(server):
    return invoker.connect(server.address)


def test_coroutines_wait_together_and_delay_nothing():
    events = {}
    begun = threading.Semaphore(0)

    async def wait(name):
        event = events[name] = asyncio.Event()
        begun.release()
        await event.wait()
        return "%s waited" % name

    async def release(name):
        events[name].set()

    functions = {
        "wait": invoker.typed("(str) -> str")(wait),
        "release": invoker.typed("(str) -> None")(release),
        "echo": bytes,
    }
    with serve(functions) as server, connect(server) as client:
        waiting = {name: client.typed("wait").submit(name) for name in "abc"}
        assert bytes(client.call("echo", b"meanwhile")) == b"meanwhile"
        for _ in waiting:
            assert begun.acquire(timeout=60)
        for name in "cab":
            client.typed("release")(name)
            assert waiting[name].result() == "%s waited" % name
        assert server.calls == 7


def test_a_coroutine_waits_for_sockets():
    """Each call asks a server of its own, and all of them wait at once."""

    async def ask(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            return int(await reader.readline())
        finally:
            writer.close()

    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(8)]
    functions = {"ask": invoker.typed("(i32) -> i32")(ask)}
    with serve(functions) as server, connect(server) as client:
        answers = [client.typed("ask").submit(listener.getsockname()[1]) for listener in listeners]
        # Every call has connected before the first gets an answer.
        connections = [listener.accept()[0] for listener in listeners]
        for number, connection in enumerate(connections):
            connection.sendall(b"%d\n" % number)
        assert [answer.result() for answer in answers] == list(range(8))
    for each in listeners + connections:
        each.close()


def test_coroutines_of_each_form_return_and_raise():
    async def plain(request):
        await asyncio.sleep(0)
        return bytes(request)[::-1]

    async def objects(*args, **kwargs):
        await asyncio.sleep(0)
        if not args:
            raise KeyError("nothing")
        return args, kwargs

    async def arrays(array):
        await asyncio.sleep(0)
        return array + 1

    async def wrong(array):
        return 5

    functions = {
        "plain": plain,
        "objects": invoker.pickled(objects),
        "arrays": invoker.typed("(f64[:]) -> f64[:]")(arrays),
        "wrong": invoker.typed("(f64[:]) -> f64[:]")(wrong),
    }
    with serve(functions) as server, connect(server) as client:
        assert bytes(client.call("plain", b"abc")) == b"cba"
        remote = client.remote("objects")
        assert remote(1, a=numpy.arange(3).tolist()) == ((1,), {"a": [0, 1, 2]})
        with pytest.raises(KeyError, match="nothing"):
            remote()
        assert client.typed("arrays")(numpy.ones(3)).tolist() == [2, 2, 2]
        large = numpy.ones(1_000_000)
        assert client.typed("arrays")(large).sum() == 2_000_000
        with pytest.raises(invoker.FunctionFailed, match=r"the function's result: expected f64\[:\]"):
            client.typed("wrong")(numpy.ones(3))
        with pytest.raises(invoker.FunctionFailed, match="argument 1 of"):
            client.call("arrays", b"")
        # More than the window's share: kept, and fetched.
        assert remote("x" * 100_000)[0] == ("x" * 100_000,)


def test_a_coroutine_that_cannot_begin_says_why():
    async def objects(number):
        return number * (b"x" * 1_000_000)

    async def typed(number):
        return number

    functions = {"objects": invoker.pickled(objects), "typed": invoker.typed("(i32) -> i32")(typed)}
    with serve(functions) as server, connect(server) as client:
        with pytest.raises(invoker.FunctionFailed, match=r"called by remote\(its name\).*16 bytes are too few"):
            client.call("objects", bytes(16))
        with pytest.raises(TypeError, match="'number'"):
            client.remote("objects")()
        with pytest.raises(invoker.FunctionFailed, match="argument 1 of"):
            client.call("typed", b"abc")
        # An answer for which there is no room is fetched from a coroutine function, too.
        assert len(client.remote("objects")(3)) == 3_000_000
        assert client.typed("typed")(7) == 7


def test_a_coroutine_that_keeps_its_array_fails():
    kept = []

    async def keep(array):
        kept.append(array)

    with serve({"keep": invoker.typed("(f64[:]) -> None")(keep)}) as server, connect(server) as client:
        with pytest.raises(invoker.FunctionFailed, match="must copy what it keeps"):
            client.typed("keep")(numpy.ones(3))
        kept.clear()
        gc.collect()


def test_a_coroutine_learns_about_its_call():
    begun = threading.Event()
    seen = threading.Event()
    answers = threading.Event()

    async def facts():
        return tuple(invoker.context())

    async def until_cancelled():
        begun.set()
        while not invoker.cancelled():
            await asyncio.sleep(0.001)
        seen.set()
        while not answers.is_set():
            await asyncio.sleep(0.001)

    functions = {
        "facts": invoker.typed("() -> (str, str, optional[f64])")(facts),
        "until_cancelled": invoker.typed("() -> None")(until_cancelled),
    }
    with serve(functions) as server, connect(server) as client:
        tenant, call_id, remaining = client.typed("facts").options(timeout=30)()
        assert tenant == "" and "-" in call_id and 0 < remaining <= 30
        future = client.typed("until_cancelled").submit()
        assert begun.wait(60)
        assert future.cancel()
        assert seen.wait(60)
        with pytest.raises(invoker.DeadlineExceeded):
            client.typed("until_cancelled").options(timeout=0.05)()
        answers.set()


def test_threads_of_a_function_wait_together():
    barrier = threading.Barrier(4)

    @invoker.pickled(concurrency=4)
    def meet(number):
        barrier.wait(60)
        return number

    @invoker.typed("(i64) -> i64", concurrency=4)
    def typed_meet(number):
        barrier.wait(60)
        return number

    with serve({"meet": meet, "typed": typed_meet, "echo": bytes}) as server, connect(server) as client:
        for function in (client.remote("meet"), client.typed("typed")):
            calls = [function.submit(number) for number in range(3)]
            assert bytes(client.call("echo", b"meanwhile")) == b"meanwhile"
            calls.append(function.submit(3))
            assert [call.result() for call in calls] == list(range(4))
    with pytest.raises(invoker.InvalidArgument, match="at most 1024"):
        serve({"meet": invoker.pickled(len, concurrency=5000)})


def test_a_lease_runs_coroutines_and_threads(worker):
    async def nap(seconds):
        await asyncio.sleep(seconds)
        return seconds

    with invoker.connect(worker.address) as client, client.lease() as lease:
        remote = lease.register(nap)
        typed = lease.register(invoker.typed("(f64) -> f64")(nap), name="typed-nap")
        naps = [typed.submit(0.2) for _ in range(20)] + [remote.submit(0.2) for _ in range(20)]
        assert bytes(lease.call("echo", b"meanwhile")) == b"meanwhile"
        assert [nap.result() for nap in naps] == [0.2] * 40

        @invoker.pickled(concurrency=8)
        def meet(number):
            import threading
            import builtins

            if not hasattr(builtins, "_meeting"):
                builtins._meeting = threading.Barrier(8)
            builtins._meeting.wait(60)
            return number

        meeting = lease.register(meet)
        assert meeting.name == "meet"
        assert list(meeting.map(range(8), max_in_flight=8)) == list(range(8))


def test_a_call_limit_holds_for_what_answers_later(worker):
    async def never():
        await asyncio.Event().wait()

    def sleep_long():
        import time

        time.sleep(600)

    for function in (never, invoker.pickled(sleep_long, concurrency=2)):
        with invoker.connect(worker.address) as client:
            lease = client.lease(call_limit=0.5)
            remote = lease.register(function)
            with pytest.raises(invoker.Aborted, match="call limit|longer than"):
                remote()
            lease.close()


def test_closing_waits_for_coroutines():
    run_script(
        """
        import asyncio

        begun = threading.Event()

        async def nap():
            begun.set()
            await asyncio.sleep(0.5)
            return "done"

        server = invoker.serve({"nap": invoker.typed("() -> str")(nap)}, provider="tcp;ofi_rxm")
        client = invoker.connect(server.address)
        future = client.typed("nap").submit()
        begun.wait()
        server.close(drain_timeout=30)
        assert future.result() == "done"
        client.close()
        # And the end of the program while one waits.
        server = invoker.serve({"nap": invoker.typed("() -> str")(nap)}, provider="tcp;ofi_rxm")
        invoker.connect(server.address).typed("nap").submit()
        """
    )
