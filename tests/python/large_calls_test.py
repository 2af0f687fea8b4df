"""Calls that nobody waits for with requests larger than the window: their line, their deadlines, the interpreter's exit."""

import asyncio
import pathlib
import threading
import time
import types

import invoker
import pytest
from conftest import PROVIDERS, run_script
from invoker._pickle import frames
from invoker._calls.frame_calls import FrameCalls
from invoker._calls.large_calls import LargeCalls


class Holding:
    """A server of this process with a function that does not return until it is let go."""

    def __init__(self, provider):
        self.entered = threading.Semaphore(0)
        self.leave = threading.Event()
        functions = {"hold": invoker.pickled(self.hold), "size": invoker.pickled(len)}
        self.server = invoker.serve(functions, provider=provider, window=1 << 18)
        self.address = self.server.address

    def hold(self, data, path=None):
        if path is not None:
            pathlib.Path(path).touch()
        self.entered.release()
        self.leave.wait()
        return len(data)

    def close(self):
        self.leave.set()
        self.server.close()


@pytest.fixture(params=PROVIDERS)
def holding(request):
    running = Holding(request.param)
    yield running
    running.close()


@pytest.fixture
def holding_over_tcp():
    """For a client of the same process."""
    running = Holding(PROVIDERS[0])
    yield running
    running.close()


@pytest.mark.parametrize("how", ["submit", "acall"])
def test_a_call_in_line_ends_at_its_deadline_and_was_not_sent(holding_over_tcp, how):
    with invoker.connect(holding_over_tcp.address) as client:
        data = bytes(client.max_payload + 1)
        # Of the two that are under way one waits for the executor, and for no longer than registering its memory may take.
        held = [client.remote("hold").submit(data) for _ in range(2)]
        holding_over_tcp.entered.acquire()
        late = client.remote("size", timeout=0.1)
        patient = client.remote("size", timeout=600).submit(data)
        if how == "submit":
            error = late.submit(data).exception(60)
        else:
            with pytest.raises(invoker.DeadlineExceeded) as caught:
                asyncio.run(asyncio.wait_for(late.acall(data), 60))
            error = caught.value
        assert isinstance(error, invoker.DeadlineExceeded)
        assert error.fate == "not_sent" and "not sent" in str(error)
        assert not all(future.done() for future in held) and not patient.done()
        holding_over_tcp.leave.set()
        assert patient.result() == len(data)


def test_time_in_line_is_time_of_the_call():
    class Native:
        max_payload = 10
        given = []
        entered = threading.Semaphore(0)
        leave = threading.Event()

        def call_frame(self, function, parts, timeout, room):
            self.given.append(timeout)
            self.entered.release()
            self.leave.wait()
            raise invoker.Cancelled

    native = Native()
    calls = FrameCalls(native, None)
    parts = frames.encode(frames.CALL, ((bytes(100),), {}))
    function = types.SimpleNamespace(name="of nobody")
    futures = [calls.start(function, parts, 100.0, None, True) for _ in range(3)]
    for _ in range(2):
        native.entered.acquire()
    time.sleep(0.2)
    native.leave.set()
    for future in futures:
        assert isinstance(future.exception(60), invoker.Cancelled)
    assert max(native.given) <= 100.0 and native.given[2] <= 99.8


@pytest.mark.parametrize("calls", [1, 4])
def test_a_function_that_never_returns_does_not_keep_the_interpreter_from_exiting(holding, tmp_path, calls):
    done = run_script(
        """
        # Ends a process that hangs.
        signal.alarm(60)
        client = invoker.connect(ADDRESS)
        data = bytes(client.max_payload + 1)
        for _ in range(%d):
            client.remote("hold").submit(data, path=%r)
        while not os.path.exists(%r):
            time.sleep(0.01)
        print("end", flush=True)
        """
        % (calls, str(tmp_path / "entered"), str(tmp_path / "entered")),
        holding.address,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


def test_closing_the_client_ends_calls_in_line_too(holding_over_tcp):
    client = invoker.connect(holding_over_tcp.address)
    data = bytes(client.max_payload + 1)
    other = client._session.frames._large.start(holding_over_tcp.leave.wait, None)
    held = client.remote("hold").submit(data)
    holding_over_tcp.entered.acquire()
    in_line = [client.remote("size").submit(data) for _ in range(3)]
    client.close()
    assert isinstance(held.exception(60), invoker.Cancelled)
    errors = [future.exception(60) for future in in_line]
    assert all(isinstance(error, invoker.FailedPrecondition) and error.fate == "not_sent" for error in errors)
    assert not other.done()


def test_two_run_at_once_the_others_in_order_and_their_threads_end():
    calls = LargeCalls()
    leave = threading.Event()
    order, running, beside = [], [], []

    def run(number):
        order.append(number)
        beside.append(list(running))
        running.append(number)
        time.sleep(0.001)
        running.remove(number)

    held = calls.start(leave.wait, None)
    futures = [calls.start(lambda i=i: run(i), time.monotonic() + 600 if i % 2 else None) for i in range(40)]
    for future in futures:
        future.result(60)
    assert order == list(range(40)) and not any(beside) and not held.done()
    leave.set()
    assert held.result(60)
    for thread in list(calls._threads):
        thread.join(60)
    assert not calls._threads


def test_a_callback_that_fails_harms_no_other_call(caplog):
    def fail(future):
        raise SystemExit("a callback's own affair")

    calls = LargeCalls()
    leave = threading.Event()
    for _ in range(3):
        calls.start(leave.wait, None).add_done_callback(fail)
    late = calls.start(leave.wait, time.monotonic() + 2)
    late.add_done_callback(fail)
    assert isinstance(late.exception(60), invoker.DeadlineExceeded)
    leave.set()
    assert calls.start(lambda: "on", None).result(60) == "on"
    assert "callback" in caplog.text
