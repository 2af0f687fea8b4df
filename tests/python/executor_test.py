"""invoker.Executor: concurrent.futures over leases."""

import asyncio
import concurrent.futures
import functools
import math
import operator
import os
import signal
import threading
import time

import invoker
import numpy
import pytest
from conftest import OWN_USER, Server, run_script


@pytest.fixture
def executor(worker):
    with invoker.Executor(worker.address, max_workers=2, ttl=600) as opened:
        yield opened


def free_cores(worker):
    with invoker.connect(worker.address) as client:
        return client.capacity().free_cores


class Gate:
    """Functions wait at it, each for a byte of a pipe with a name."""

    def __init__(self, path):
        os.mkfifo(path)
        self.path = str(path)
        self._pipe = os.open(path, os.O_RDWR)

    def open(self):
        # More than any test has calls.
        os.write(self._pipe, bytes(2000))

    def close(self):
        self.open()
        os.close(self._pipe)


@pytest.fixture
def gate(tmp_path):
    made = Gate(tmp_path / "gate")
    yield made
    # Or the executor would wait for the calls for ever.
    made.close()


def wait_at(gate):
    """The processes that a call runs in and under, once the gate is open."""
    with open(gate, "rb", buffering=0) as pipe:
        pipe.read(1)
    return os.getpid(), os.getppid()


def half(x):
    """Lives in this file, which is not installed."""
    return x / 2


def test_submit_takes_any_callable(executor):
    factor = 3
    assert executor.max_workers == 2
    assert executor.submit(pow, 2, 100).result() == 2**100
    assert executor.submit(half, 5).result() == 2.5
    assert executor.submit(lambda x: x * factor, x=4).result() == 12
    assert executor.submit(functools.partial(operator.add, 1), 2).result() == 3
    assert executor.submit("a,b".split, ",").result() == ["a", "b"]
    array = numpy.arange(1e6)
    assert executor.submit(numpy.sum, array).result() == array.sum()


def test_calls_run_in_executors_of_their_own(executor, gate):
    futures = [executor.submit(wait_at, gate.path) for _ in range(20)]
    gate.open()
    processes = {future.result()[0] for future in futures}
    assert len(processes) == 2 and os.getpid() not in processes


@pytest.mark.parametrize("chunksize", [1, 7, 1000])
def test_map_is_that_of_the_standard_library(executor, chunksize):
    assert list(executor.map(pow, range(50), [2] * 40, chunksize=chunksize)) == [x**2 for x in range(40)]
    results = executor.map(divmod, [1, 1, 1], [1, 0, 1])
    assert next(results) == (1, 0)
    with pytest.raises(ZeroDivisionError) as caught:
        next(results)
    assert "divmod" in str(caught.value.__cause__) or caught.value.__cause__ is not None
    with pytest.raises(ValueError, match="chunksize"):
        executor.map(pow, [1], [1], chunksize=0)


def test_submit_does_not_wait_for_executors(executor, gate):
    held = [executor.submit(wait_at, gate.path) for _ in range(1000)]
    # Those beyond the first few wait here.
    assert sum(future.running() for future in held) == 4
    assert held[-1].cancel() and held[-1].cancelled()
    assert not held[0].cancel()
    gate.open()
    assert sum(len(future.result()) == 2 for future in held[:-1]) == 999


def test_as_completed_and_wait_work(executor):
    futures = [executor.submit(math.factorial, n) for n in range(50)]
    assert sorted(future.result() for future in concurrent.futures.as_completed(futures)) == sorted(map(math.factorial, range(50)))
    done, waiting = concurrent.futures.wait(futures)
    assert len(done) == 50 and not waiting


def test_asyncio_runs_in_it(executor):
    async def main():
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(executor, half, n) for n in range(20)))

    assert asyncio.run(main()) == [n / 2 for n in range(20)]


def test_what_cannot_travel_is_the_futures_exception(executor):
    assert isinstance(executor.submit(half, threading.Lock()).exception(), TypeError)
    assert isinstance(executor.submit(threading.Lock().acquire).exception(), TypeError)
    assert isinstance(executor.submit(threading.Lock).exception(), Exception)
    assert executor.submit(half, 2).result() == 1


def test_shutdown_gives_the_executors_back(worker):
    before = free_cores(worker)
    executor = invoker.Executor(worker.address, max_workers=2)
    assert free_cores(worker) == before - 2
    future = executor.submit(half, 2)
    executor.shutdown()
    assert future.result() == 1 and free_cores(worker) == before
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(half, 2)
    executor.shutdown(wait=False)


def test_shutdown_without_waiting_ends_the_leases_later(worker, gate):
    before = free_cores(worker)
    executor = invoker.Executor(worker.address, max_workers=1)
    futures = [executor.submit(wait_at, gate.path) for _ in range(10)]
    executor.shutdown(wait=False, cancel_futures=True)
    assert [future.cancelled() for future in futures] == [False] * 2 + [True] * 8
    assert free_cores(worker) == before - 1
    gate.open()
    assert [len(future.result()) for future in futures[:2]] == [2, 2]
    executor.shutdown()
    assert free_cores(worker) == before


def test_a_lease_that_is_given_stays_open(worker):
    with invoker.connect(worker.address) as client, client.lease(executors=1) as lease:
        with invoker.Executor(lease) as executor:
            assert executor.max_workers == 1
            assert executor.submit(half, 2).result() == 1
        assert lease.register(half)(4) == 2
        with pytest.raises(TypeError, match="alone"):
            invoker.Executor(lease, max_workers=2)


def test_a_client_is_leased_from_and_stays_open(worker):
    with invoker.connect(worker.address) as client:
        with invoker.Executor(client) as executor:
            assert executor.max_workers == client.capacity().cores
            assert executor.submit(half, 2).result() == 1
        assert client.ping() > 0


def crash():
    signal.raise_signal(signal.SIGSEGV)


def test_a_crash_breaks_the_executor(worker):
    with invoker.Executor(worker.address, max_workers=1) as executor:
        with pytest.raises(invoker.Aborted):
            executor.submit(crash).result()
        with pytest.raises(concurrent.futures.BrokenExecutor, match="SIGSEGV|signal|Segmentation"):
            executor.submit(half, 2).result()


def test_closing_the_lease_breaks_the_executor(worker, gate):
    with invoker.connect(worker.address) as client, client.lease() as lease, invoker.Executor(lease) as executor:
        futures = [executor.submit(wait_at, gate.path) for _ in range(10)]
        lease.close()
        errors = [future.exception(60) for future in futures]
        # Two were under way.
        assert [type(error) for error in errors[:2]] == [invoker.Cancelled] * 2
        assert all(isinstance(error, (invoker.InvokerError, concurrent.futures.BrokenExecutor)) for error in errors)
        error = executor.submit(half, 2).exception(60)
        assert isinstance(error, concurrent.futures.BrokenExecutor) and "it was closed" in str(error)


def test_leaving_the_executor_waits_for_calls_that_a_crash_kept_from_starting(worker):
    with invoker.Executor(worker.address, max_workers=1) as executor:
        futures = [executor.submit(crash) for _ in range(100)]
    errors = [future.exception() for future in futures]
    assert isinstance(errors[0], invoker.Aborted)
    assert isinstance(errors[-1], concurrent.futures.BrokenExecutor)


def test_a_group_spreads_over_its_workers_and_outlives_a_crash(worker, gate):
    other = Server("auto", "--lease-cores=2", "--lease-memory=2G", "--allow-upload=all", "--python=/usr/bin/python3", OWN_USER)
    try:
        with invoker.Executor("%s,%s" % (worker.address, other.address), max_workers=3) as executor:
            assert executor.max_workers == 3
            futures = [executor.submit(wait_at, gate.path) for _ in range(12)]
            gate.open()
            assert len({future.result()[1] for future in futures}) == 2
            with pytest.raises(invoker.Aborted):
                executor.submit(crash).result()
            # One lease has ended, and the other one goes on.
            assert list(executor.map(half, range(20))) == [n / 2 for n in range(20)]
    finally:
        other.stop()


def test_mistakes_leave_nothing_leased(worker):
    before = free_cores(worker)
    with pytest.raises(ValueError, match="greater than 0"):
        invoker.Executor(worker.address, max_workers=0)
    with pytest.raises(TypeError):
        invoker.Executor(worker.address, max_workers=1, colour="red")
    with pytest.raises(invoker.InvokerError):
        invoker.Executor(worker.address, max_workers=100)
    assert free_cores(worker) == before


def test_ctrl_c_ends_the_wait_for_a_result(worker):
    done = run_script(
        """

        with invoker.Executor(ADDRESS, max_workers=1) as executor:
            future = executor.submit(time.sleep, 0.5)
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                future.result()
            except KeyboardInterrupt:
                print("interrupted")
        """,
        worker.address,
    )
    assert done.stdout == "interrupted\n"


def test_joblib_runs_its_calls_on_it(executor):
    import joblib

    import invoker.joblib

    def simulate(seed, scale):
        return numpy.random.default_rng(seed).normal(scale=scale), os.getpid()

    sweep = [(seed, scale) for seed in range(10) for scale in (1.0, 2.0)]
    with invoker.joblib.backend(executor):
        results = joblib.Parallel(n_jobs=-1)(joblib.delayed(simulate)(*each) for each in sweep)
        with pytest.raises(ZeroDivisionError):
            joblib.Parallel(n_jobs=2)(joblib.delayed(divmod)(1, n) for n in (1, 0))
        assert joblib.Parallel(n_jobs=2)(joblib.delayed(half)(n) for n in range(3)) == [0, 0.5, 1]
    assert [value for value, _ in results] == [simulate(*each)[0] for each in sweep]
    assert len({process for _, process in results}) == 2
    assert os.getpid() not in {process for _, process in results}


def note(path, gate):
    """Adds a line to the file once it has passed the gate."""
    wait_at(gate)
    with open(path, "a") as file:
        file.write("ran\n")
    return "noted"


def test_after_a_failure_joblib_cancels_calls_that_wait(executor, gate, tmp_path):
    import joblib

    import invoker.joblib

    runs = tmp_path / "runs"
    calls = [joblib.delayed(divmod)(1, 0)] + [joblib.delayed(note)(str(runs), gate.path) for _ in range(20)]
    with invoker.joblib.backend(executor), pytest.raises(ZeroDivisionError):
        joblib.Parallel(n_jobs=2, pre_dispatch="all", batch_size=1)(calls)
    gate.open()
    # Four calls were under way at the two executors. No other one has run.
    last = executor.submit(half, 2)
    executor.shutdown()
    assert last.result() == 1 and runs.read_text() == "ran\n" * 4


def test_a_failure_in_joblib_cancels_nothing_of_another_parallel(executor, gate, tmp_path):
    import joblib

    import invoker.joblib

    runs, others = tmp_path / "runs", tmp_path / "others"

    def calls():
        yield from [joblib.delayed(note)(str(runs), gate.path) for _ in range(10)]
        # These calls wait now. Another Parallel over the same backend waits behind them, until it gives up.
        with pytest.raises(concurrent.futures.TimeoutError):
            joblib.Parallel(n_jobs=2, pre_dispatch="all", batch_size=1, timeout=0.01)(
                joblib.delayed(note)(str(others), gate.path) for _ in range(3)
            )
        gate.open()

    with invoker.joblib.backend(executor):
        results = joblib.Parallel(n_jobs=2, pre_dispatch="all", batch_size=1)(calls())
    assert results == ["noted"] * 10 and runs.read_text() == "ran\n" * 10
    executor.shutdown()
    assert not others.exists()
