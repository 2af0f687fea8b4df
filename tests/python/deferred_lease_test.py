"""Bills of calls that are answered later, and how often such calls run when their executor or their session is lost."""

import contextlib
import os
import selectors
import socket
import subprocess
import sys
import textwrap
import time

import invoker
import pytest
from conftest import WITH_THE_TEST, come_to_rest, remove_shared_memory

# For servers of their own.
PROVIDER = "tcp;ofi_rxm"
CALLS = 8


class Meeting:
    """Calls connect to it when they begin, and wait for an answer."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._listener.settimeout(60)
        self.port = self._listener.getsockname()[1]
        self._waiting = []

    def wait_until_running(self, calls):
        for _ in range(calls):
            self._waiting.append(self._listener.accept()[0])

    def release(self):
        for connection in self._waiting:
            connection.sendall(b"go\n")

    def is_asked_again(self):
        """Whether a call has begun of which no wait_until_running() knows."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            return bool(selector.select(0))

    def close(self):
        for each in (self._listener, *self._waiting):
            each.close()


@pytest.fixture
def meeting():
    with contextlib.closing(Meeting()) as made:
        yield made


async def wait_as_coroutine(port):
    """Returns the seconds for which it has waited."""
    import asyncio
    import time

    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await reader.readline()
    writer.close()
    return time.monotonic() - began


def wait_on_thread(port):
    import socket
    import time

    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.recv(1)
    return time.monotonic() - began


@pytest.mark.parametrize("typed", [True, False], ids=["typed", "objects"])
@pytest.mark.parametrize("threads", [True, False], ids=["threads", "coroutines"])
def test_a_bill_has_the_number_of_calls_and_the_time_on_threads_but_not_that_of_waiting_coroutines(
    worker, meeting, threads, typed
):
    function = wait_on_thread if threads else wait_as_coroutine
    options = {"concurrency": CALLS} if threads else {}
    marked = invoker.typed("(i64) -> f64", **options)(function) if typed else invoker.pickled(function, **options)
    # Without polling, which shares the lease's time with the function.
    with invoker.connect(worker.address) as client, client.lease(polling="warm") as lease:
        remote = lease.register(marked, name="wait")
        before = lease.usage
        began = time.monotonic()
        futures = [remote.submit(meeting.port) for _ in range(CALLS)]
        meeting.wait_until_running(CALLS)
        all_run = time.monotonic()
        # The executor goes on meanwhile. Waiting calls are not on the bill yet.
        assert bytes(lease.call("echo", b"meanwhile")) == b"meanwhile"
        while lease.usage.calls < before.calls + 1:
            pass
        assert lease.usage.calls == before.calls + 1
        # They wait for longer than it took to begin them.
        while time.monotonic() - all_run < 2 * (all_run - began):
            lease.ping()
        meeting.release()
        longest = max(future.result(60) for future in futures)
    bill = lease.usage
    assert bill.calls == before.calls + 1 + CALLS
    if threads:
        # Two clocks.
        assert bill.function_time > 0.99 * longest
    else:
        # Only the executor's own thread is busy, and only until each coroutine has begun.
        assert bill.function_time < longest


def note_and_wait(path, port, *, concurrency):
    """A function that adds a line to the file, and waits."""

    async def coroutine():
        with open(path, "a") as file:
            file.write("ran\n")
        return await wait_as_coroutine(port)

    def thread():
        with open(path, "a") as file:
            file.write("ran\n")
        return wait_on_thread(port)

    made = thread if concurrency else coroutine
    return invoker.pickled(made, concurrency=concurrency)


@pytest.mark.parametrize("concurrency", [0, 2], ids=["coroutine", "thread"])
@pytest.mark.parametrize("whose", ["lease", "client"])
def test_a_call_that_waits_runs_once_when_its_executor_is_lost(worker, meeting, tmp_path, concurrency, whose):
    runs = tmp_path / "runs"
    with invoker.connect(worker.address) as client, client.lease() as lease:
        where = {"lease": lease, "client": client}[whose]
        remote = where.register(note_and_wait(runs, meeting.port, concurrency=concurrency), name="wait")
        end = where.register(os._exit, name="end")
        future = remote.submit()
        meeting.wait_until_running(1)
        with pytest.raises(invoker.Aborted):
            end(1)
        error = future.exception(60)
        assert isinstance(error, invoker.Aborted) and error.fate == "maybe_executed"
        if whose == "client":
            # Its next lease has the same functions, and does not run the call again.
            assert client.register(pow, name="pow")(2, 3) == 8
        assert not meeting.is_asked_again() and runs.read_text() == "ran\n"


class Worker:
    """A process that serves a coroutine function, "wait", which adds a line to a file and does not end."""

    CODE = """
        import asyncio, sys, invoker

        async def wait(path):
            with open(path, "a") as file:
                file.write("ran\\n")
            print("runs", flush=True)
            await asyncio.Event().wait()

        functions = {"wait": invoker.typed("(str) -> None")(wait), "echo": bytes}
        with invoker.serve(functions, provider=%r) as server:
            print(server.address, flush=True)
            sys.stdin.read()
    """

    def __init__(self):
        code = textwrap.dedent(self.CODE % PROVIDER)
        self.process = subprocess.Popen(
            [*WITH_THE_TEST, sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.address = self.process.stdout.readline().strip()
        assert self.address, "it did not start: exit code %s" % self.process.wait()

    def kill(self):
        """Ends it like a crash."""
        if self.process.returncode is None:
            come_to_rest(self.process.pid)
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            remove_shared_memory(self.process.pid)


@pytest.fixture
def workers():
    made = [Worker(), Worker()]
    yield made
    for each in made:
        each.kill()


def next_that_runs(workers):
    """Takes out the worker that says next that it runs a call."""
    with selectors.DefaultSelector() as selector:
        for each in workers:
            selector.register(each.process.stdout, selectors.EVENT_READ, each)
        ready = selector.select(60)
    assert ready, "no call has begun"
    worker = ready[0][0].data
    assert worker.process.stdout.readline() == "runs\n"
    workers.remove(worker)
    return worker


@pytest.mark.parametrize("retry", [0, 1])
def test_a_call_that_waits_runs_again_only_if_its_caller_asks_when_its_session_is_lost(workers, tmp_path, retry):
    runs = tmp_path / "runs"
    left = list(workers)
    with invoker.connect(",".join(each.address for each in workers), reconnect=False) as group:
        future = group.typed("wait").options(retry=retry).submit(str(runs))
        next_that_runs(left).kill()
        if retry:
            next_that_runs(left).kill()
        error = future.exception(60)
        assert isinstance(error, invoker.Unavailable) and error.fate == "maybe_executed"
        if not retry:
            # The other worker goes on, and has run nothing.
            assert bytes(group.call("echo", b"x")) == b"x"
        assert runs.read_text() == "ran\n" * (1 + retry)
