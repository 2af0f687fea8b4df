"""Calls that nobody waits for: futures, callbacks, asyncio."""

import asyncio
import concurrent.futures
import gc
import random
import threading
import weakref

import invoker
import numpy
import pytest
from conftest import comes_true, microseconds
from invoker._native import buffers


def test_many_calls_under_way_give_each_its_own_result(client):
    futures = [client.submit("echo", b"%d" % i) for i in range(64)]
    assert all(isinstance(future, concurrent.futures.Future) for future in futures)
    assert [bytes(future.result()) for future in futures] == [b"%d" % i for i in range(64)]


def test_submit_waits_for_room(client):
    data = [random.Random(i).randbytes(client.max_payload // 3) for i in range(40)]
    futures = [client.submit("echo", item) for item in data]
    for item, future in zip(data, futures):
        assert future.result() == item


def test_submit_from_many_threads(client):
    def work(seed):
        chance = random.Random(seed)
        sent = [chance.randbytes(chance.randrange(5000)) for _ in range(60)]
        futures = [client.submit("test.echo", item) for item in sent]
        return [bytes(future.result()) for future in futures] == sent

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(12)))


def test_a_call_ends_though_nobody_waits_for_it(client):
    futures = [client.submit("echo", b"%d" % i) for i in range(64)]
    assert comes_true(lambda: all(future.done() for future in futures))
    assert not any(future.running() or future.cancel() or future.cancelled() for future in futures)
    assert [bytes(future.result(0)) for future in futures] == [b"%d" % i for i in range(64)]


def test_any_number_of_threads_wait_for_a_future(client, rendezvous):
    future = client.submit("test.rendezvous", rendezvous.path)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = [pool.submit(wait) for wait in (future.result, future.exception) * 4]
        rendezvous.release()
        assert [result.result(60) for result in results] == [b"held", None] * 4
    assert future.result() is future.result()


def test_who_waits_and_who_watches_learn_of_the_same_end(client):
    for _ in range(100):
        future = client.submit("echo", b"x")
        told = []
        barrier = threading.Barrier(2)

        def watch(future=future, told=told, barrier=barrier):
            barrier.wait()
            future.add_done_callback(told.append)
            assert concurrent.futures.wait([future], timeout=60).done == {future}

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            watching = pool.submit(watch)
            barrier.wait()
            assert future.result(60) == b"x"
            watching.result()
        assert comes_true(lambda told=told: len(told) == 1) and told == [future]


def test_a_cancelled_call_is_so_for_all_who_watch_it(client, rendezvous):
    slow = client.submit("test.rendezvous", rendezvous.path)
    for _ in range(50):
        future = client.submit("echo", b"x")
        told = threading.Event()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            watching = pool.submit(future.add_done_callback, lambda _, told=told: told.set())
            assert future.cancel()
            watching.result()
        assert told.wait(60) and future.cancelled() and future.done()
        with pytest.raises(concurrent.futures.CancelledError):
            future.exception()
    rendezvous.release()
    assert slow.result() == b"held"


def test_out_is_written_before_anybody_learns_that_the_call_has_ended(client):
    for learn in (
        lambda future: concurrent.futures.wait([future]),
        lambda future: next(invoker.as_completed([future])),
        lambda future: comes_true(future.done),
        lambda future: future.exception(),
    ):
        out = bytearray(3)
        learn(client.submit("echo", b"abc", out=out))
        assert out == b"abc"


def test_an_error_that_was_raised_keeps_no_future(client):
    def fail():
        future = client.submit("test.fail", b"why")
        gone.append(weakref.ref(future))
        with pytest.raises(invoker.FunctionFailed):
            future.result()

    async def fail_from_a_loop():
        with pytest.raises(invoker.FunctionFailed) as raised:
            await client.function("test.fail").acall(b"why")
        gone.append(weakref.ref(raised.value))

    gone = []
    fail()
    asyncio.run(fail_from_a_loop())
    gc.collect()
    assert [each() for each in gone] == [None, None]


def test_results_are_hoarded_freely(client):
    futures = [client.submit("echo", bytes([i]) * (client.max_payload // 2)) for i in range(30)]
    concurrent.futures.wait(futures)
    assert [future.result()[0] for future in futures] == list(range(30))


def test_errors_are_in_the_future(client, rendezvous):
    with pytest.raises(invoker.FunctionFailed, match="why"):
        client.submit("test.fail", b"why").result()
    error = client.submit("test.rendezvous", rendezvous.path, timeout=0.2).exception()
    rendezvous.release()
    assert isinstance(error, TimeoutError) and error.fate == "maybe_executed"
    assert isinstance(client.submit("echo", b"", timeout=0).exception(), TimeoutError)


def test_a_call_under_way_can_be_cancelled_and_one_that_has_ended_cannot(client, rendezvous):
    future = client.submit("test.rendezvous", rendezvous.path)
    queued = client.submit("echo", b"queued")
    assert future.running()
    called_back = []
    queued.add_done_callback(called_back.append)
    assert queued.cancel() and queued.cancel() and queued.cancelled() and not queued.running()
    assert called_back == [queued]
    with pytest.raises(concurrent.futures.CancelledError):
        queued.result()
    assert concurrent.futures.wait([queued]).done == {queued}
    rendezvous.release()
    assert future.result() == b"held" and not future.cancel() and not future.cancelled()
    assert client.call("echo", b"on") == b"on"


class Copying:
    """In the place of what copies a response into out=: stands still before it does so."""

    def __init__(self, monkeypatch):
        self.begun = threading.Event()
        self.may_go_on = threading.Event()
        self._copy = buffers.copy_into
        monkeypatch.setattr(buffers, "copy_into", self)

    def __call__(self, target, response):
        self.begun.set()
        self.may_go_on.wait()
        return self._copy(target, response)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # Whatever the test has found: clients wait for it when they are closed.
        self.may_go_on.set()


@pytest.mark.parametrize("retry", [0, 1])
def test_out_of_a_call_that_was_cancelled_is_never_written(server, rendezvous, monkeypatch, retry):
    with invoker.connect(server.address, reconnect=True) as group, Copying(monkeypatch) as copying:
        out = bytearray(3)
        future = group.submit("echo", b"abc", out=out, retry=retry)
        reader = threading.Thread(target=future.result)
        reader.start()
        assert copying.begun.wait(60)
        # Too late: it is being written.
        assert not future.cancel() and not future.cancelled() and not future.done()
        copying.may_go_on.set()
        assert future.result(60) == b"abc" and out == b"abc"
        reader.join()
        copying.begun.clear()
        slow = group.submit("test.rendezvous", rendezvous.path)
        out = bytearray(3)
        future = group.submit("echo", b"abc", out=out, retry=retry)
        assert future.cancel() and not slow.done()
        rendezvous.release()
        assert group.submit("echo", b"on").result(60) == b"on"
        assert not copying.begun.is_set() and out == bytes(3)


def test_cancelling_a_task_cancels_its_call(client, rendezvous):
    async def main():
        slow = client.submit("test.rendezvous", rendezvous.path)
        task = asyncio.ensure_future(client.acall("echo", b"queued"))
        await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not slow.done()
        rendezvous.release()
        assert await asyncio.wrap_future(slow) == b"held"
        return await client.acall("echo", b"on")

    assert asyncio.run(main()) == b"on"


def test_a_plain_client_tries_nothing_again(client):
    for call in (client.call, lambda *args, **options: client.submit(*args, **options).result()):
        with pytest.raises(invoker.InvalidArgument, match="Group") as caught:
            call("echo", b"", retry=1)
        assert caught.value.fate == "not_sent"
    assert client.call("echo", b"x", retry=0) == b"x"


def test_dtype_and_out_work_with_futures(client):
    assert client.submit("echo", numpy.arange(5.0), dtype=float).result().tolist() == [0, 1, 2, 3, 4]
    assert isinstance(client.submit("echo", bytes(3), dtype="i4").exception(), ValueError)
    out = bytearray(10)
    assert client.submit("echo", b"abc", out=out).result() == b"abc"
    assert out == b"abc" + bytes(7)


def test_callbacks_may_call_and_submit(client):
    got = []
    done = threading.Event()

    def first(future):
        got.append(bytes(client.call("echo", bytes(future.result()) + b"b")))
        client.submit("echo", got[-1] + b"c").add_done_callback(second)

    def second(future):
        got.append(bytes(future.result()))
        done.set()

    client.submit("test.sleep", microseconds(20_000)).add_done_callback(
        lambda _: client.submit("echo", b"a").add_done_callback(first)
    )
    assert done.wait(60)
    assert got == [b"ab", b"abc"]


def test_a_callback_that_fails_harms_nobody_else(client, rendezvous, caplog):
    def fail(future):
        raise SystemExit("a callback's own affair")

    slow = client.submit("test.rendezvous", rendezvous.path)
    slow.add_done_callback(fail)
    rendezvous.release()
    assert slow.result() == b"held"
    # Callbacks run one after the other.
    called_back = threading.Event()
    client.submit("test.rendezvous", rendezvous.path).add_done_callback(lambda _: called_back.set())
    rendezvous.release()
    assert called_back.wait(60)
    assert "callback" in caplog.text


def test_a_callback_may_close_the_client(client, rendezvous):
    closed = threading.Event()

    def close(future):
        client.close()
        closed.set()

    first = client.submit("test.rendezvous", rendezvous.path)
    second = client.submit("test.rendezvous", rendezvous.path)
    first.add_done_callback(close)
    rendezvous.release()
    # To close a session waits for the function that runs, but not before all its calls have ended.
    assert isinstance(second.exception(60), invoker.Cancelled)
    rendezvous.release()
    assert closed.wait(60)


def test_closing_ends_calls_under_way(client, rendezvous):
    futures = [client.submit("test.rendezvous", rendezvous.path) for _ in range(4)]
    blocked = []

    def block():
        try:
            client.call("test.rendezvous", rendezvous.path)
        except invoker.InvokerError as error:
            blocked.append(error)

    thread = threading.Thread(target=block)
    thread.start()
    closing = threading.Thread(target=client.close)
    closing.start()
    for future in futures:
        error = future.exception(timeout=60)
        assert isinstance(error, invoker.Cancelled) and error.fate == "maybe_executed"
    # Those that had begun, or begin yet: the session is closed behind them.
    for _ in range(5):
        rendezvous.release()
    closing.join()
    thread.join()
    # It may have come too late to start.
    assert isinstance(blocked[0], (invoker.Cancelled, invoker.FailedPrecondition))


def test_asyncio_gathers_many_calls(client):
    async def main():
        return await asyncio.gather(*(client.acall("echo", b"%d" % i) for i in range(64)))

    assert [bytes(item) for item in asyncio.run(main())] == [b"%d" % i for i in range(64)]


def test_asyncio_never_blocks_the_loop_for_room(client):
    size = client.max_payload // 2
    turns = []

    async def tick():
        while True:
            turns.append(None)
            await asyncio.sleep(0)

    async def main():
        ticking = asyncio.create_task(tick())
        sleeps = [client.acall("test.sleep", microseconds(100_000), response_capacity=size) for _ in range(6)]
        echoes = [client.function("echo").acall(bytes([i]) * size) for i in range(10)]
        results = await asyncio.gather(*sleeps, *echoes)
        ticking.cancel()
        return results

    results = asyncio.run(main())
    assert [len(item) for item in results] == [0] * 6 + [size] * 10
    # The loop went round while calls were waiting for room.
    assert len(turns) > 20


def test_asyncio_gets_errors_and_timeouts(client, rendezvous):
    async def main():
        with pytest.raises(invoker.FunctionFailed):
            await client.acall("test.fail", b"x")
        with pytest.raises(invoker.NotFound):
            await client.acall("nope")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(client.acall("test.rendezvous", rendezvous.path), 0.02)
        rendezvous.release()
        return await client.acall("echo", numpy.arange(3), dtype=int)

    assert asyncio.run(main()).tolist() == [0, 1, 2]


def test_a_function_handle_awaits(client):
    assert asyncio.run(client.function("echo").acall(b"abc")) == b"abc"
