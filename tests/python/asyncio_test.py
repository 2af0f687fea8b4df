"""Connecting, leasing and closing from asyncio, which never blocks the loop; wait() and as_completed()."""

import asyncio
import concurrent.futures
import gc
import os
import time
import weakref

import invoker
import pytest
from conftest import comes_true, microseconds, run_script


def cores(worker):
    with invoker.connect(worker.address) as client:
        capacity = client.capacity()
        return capacity.free_cores, capacity.cores


def test_everything_has_an_async_way(worker):
    async def main():
        async with await invoker.aconnect(worker.address) as client:
            assert bytes(await client.acall("echo", b"hello")) == b"hello"
            async with await client.alease(executors=1) as lease:
                double = lease.register(lambda x: 2 * x)
                assert await asyncio.gather(*(double.acall(n) for n in range(10))) == list(range(0, 20, 2))
            with pytest.raises(invoker.FailedPrecondition):
                await double.acall(1)
        with pytest.raises(invoker.FailedPrecondition):
            client.ping()
        async with await invoker.aconnect(worker.address, reconnect=True) as group:
            assert isinstance(group, invoker.Group)
            async with await group.alease(executors=2) as lease:
                assert len(lease) == 2

    asyncio.run(main())
    free, all_cores = cores(worker)
    assert free == all_cores


def test_errors_are_those_of_the_blocking_ways(worker):
    async def main():
        with pytest.raises(invoker.Unavailable):
            await invoker.aconnect("127.0.0.1:1", connect_timeout=1.0)
        with pytest.raises(TypeError):
            await invoker.aconnect(worker.address, colour="red")
        async with await invoker.aconnect(worker.address) as client:
            with pytest.raises(invoker.InvalidArgument):
                await client.alease(executors=100)

    asyncio.run(main())


async def stand_in_line(client):
    """A lease of all that is free, and the task of one that waits for it to end."""
    everything = await client.alease(executors=client.capacity().free_cores)
    waiting = asyncio.ensure_future(client.alease(executors=1, wait=60))
    while client.capacity().waiting == 0:
        await asyncio.sleep(0.01)
    return everything, waiting


def test_the_loop_runs_on_while_a_lease_waits_in_line(worker):
    async def main():
        async with await invoker.aconnect(worker.address) as client:
            everything, waiting = await stand_in_line(client)
            assert not waiting.done()
            everything.close()
            async with await waiting as lease:
                assert len(lease) == 1

    asyncio.run(main())


def test_a_lease_that_nobody_waits_for_any_more_is_given_back(worker):
    async def main():
        async with await invoker.aconnect(worker.address) as client:
            everything, waiting = await stand_in_line(client)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            everything.close()
            capacity = client.capacity()
            while capacity.free_cores < capacity.cores or capacity.waiting > 0:
                await asyncio.sleep(0.01)
                capacity = client.capacity()

    asyncio.run(main())


def test_map_takes_several_iterables(worker):
    with invoker.connect(worker.address) as client, client.lease(executors=2) as lease:
        power = lease.register(pow)
        seen = []
        assert list(power.map(range(5), [2] * 4, progress=lambda done, of: seen.append((done, of)))) == [0, 1, 4, 9]
        assert seen[-1] == (4, 4)
        assert list(power.map((n for n in range(3)), [3] * 9)) == [0, 1, 8]
        with pytest.raises(TypeError, match="needs inputs"):
            power.map()


def futures_of(results):
    made = []
    for result in results:
        future = concurrent.futures.Future()
        if result is not None:
            (future.set_exception if isinstance(result, Exception) else future.set_result)(result)
        made.append(future)
    return made


def test_wait_is_that_of_the_standard_library():
    done, failed, waiting = futures_of([1, ValueError("no"), None])
    assert invoker.wait([done, failed]) == concurrent.futures.wait([done, failed])
    assert invoker.wait([done, waiting], timeout=0) == ({done}, {waiting})
    assert invoker.wait([done, failed, waiting], return_when=concurrent.futures.FIRST_COMPLETED) == ({done, failed}, {waiting})
    assert invoker.wait([done, waiting], return_when=concurrent.futures.FIRST_COMPLETED).done == {done}
    assert invoker.wait([failed, waiting], return_when=concurrent.futures.FIRST_EXCEPTION).not_done == {waiting}
    start = time.monotonic()
    assert invoker.wait([waiting], timeout=0.05).not_done == {waiting}
    assert time.monotonic() - start >= 0.05
    with pytest.raises(ValueError, match="return_when"):
        invoker.wait([done, waiting], return_when="sometimes")


def test_as_completed_is_that_of_the_standard_library():
    done, failed, waiting = futures_of([1, ValueError("no"), None])
    assert set(invoker.as_completed([done, failed, done])) == {done, failed}
    ended = invoker.as_completed([done, waiting], timeout=0.05)
    assert next(ended) is done
    with pytest.raises(concurrent.futures.TimeoutError, match="1 \\(of 2\\) futures unfinished"):
        next(ended)


def test_a_wait_that_is_over_keeps_no_futures():
    done, late, waiting = futures_of([1, None, None])
    seen = weakref.ref(late)
    invoker.wait([late, waiting], timeout=0)
    next(invoker.as_completed([done, late, waiting]))
    late.set_result(2)
    del late
    gc.collect()
    assert seen() is None
    assert not waiting.done()


@pytest.mark.parametrize("wait", ["invoker.wait([future])", "next(invoker.as_completed([future]))"])
def test_a_signal_that_another_thread_gets_ends_a_wait(wait):
    done = run_script(
        """
        import concurrent.futures

        future = concurrent.futures.Future()
        idle = threading.Thread(target=time.sleep, args=(3600,), daemon=True)
        idle.start()
        threading.Timer(0.1, signal.pthread_kill, (idle.ident, signal.SIGINT)).start()
        try:
            %s
        except KeyboardInterrupt:
            print("interrupted")
        """
        % wait
    )
    assert done.stdout == "interrupted\n"


def test_a_task_that_makes_one_call_after_the_other_lets_others_run(client):
    async def main():
        ran = []

        async def other():
            ran.append(True)

        task = asyncio.ensure_future(other())
        while not ran:
            assert await client.acall("test.echo", b"x") == b"x"
        await task

    asyncio.run(main())


def test_a_call_that_takes_long_wakes_its_loop(client):
    async def main():
        echo = client.function("echo")
        for _ in range(3):
            assert await client.acall("test.sleep", microseconds(20_000)) == b""
            assert [bytes(await echo.acall(b"%d" % i)) for i in range(50)] == [b"%d" % i for i in range(50)]

    asyncio.run(main())


def test_one_loop_calls_several_clients_and_one_client_is_called_from_several_loops(server):
    async def main(clients):
        calls = [each.acall("echo", b"%d" % i) for i in range(20) for each in clients]
        return [int(bytes(answer)) for answer in await asyncio.gather(*calls)]

    with invoker.connect(server.address) as first, invoker.connect(server.address) as second:
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            answers = [pool.submit(asyncio.run, main((first, second))) for _ in range(6)]
            assert [each.result(60) for each in answers] == [[i for i in range(20) for _ in range(2)]] * 6


def test_clients_that_are_closed_leave_nothing_in_the_loop(server):
    async def main():
        def descriptors():
            return len(os.listdir("/proc/self/fd"))

        counts = []
        for _ in range(4):
            with await invoker.aconnect(server.address) as client:
                assert await client.acall("echo", b"x") == b"x"
            await asyncio.sleep(0)
            counts.append(descriptors())
        # gRPC closes a connection a moment after the client has let go of it.
        assert comes_true(lambda: descriptors() == min(counts[1:])), counts

    asyncio.run(main())


def test_a_client_that_is_closed_ends_what_a_loop_awaits(client, rendezvous):
    async def main():
        task = asyncio.ensure_future(client.acall("test.rendezvous", rendezvous.path))
        await asyncio.to_thread(rendezvous.wait_until_running)
        closing = asyncio.ensure_future(asyncio.to_thread(client.close))
        with pytest.raises(invoker.Cancelled):
            await asyncio.wait_for(task, 60)
        rendezvous.release()
        await closing

    asyncio.run(main())


def test_a_loop_that_closes_with_calls_under_way_harms_nobody(client, rendezvous):
    async def main():
        asyncio.ensure_future(client.acall("test.rendezvous", rendezvous.path))
        await asyncio.to_thread(rendezvous.wait_until_running)

    asyncio.run(main())
    rendezvous.release()
    assert client.submit("echo", b"on").result(60) == b"on"
    assert asyncio.run(client.acall("echo", b"x")) == b"x"
