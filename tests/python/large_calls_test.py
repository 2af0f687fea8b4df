"""Started calls whose payloads are larger than the window: deadlines, cancelling, answers, the interpreter's exit."""

import asyncio
import pathlib
import threading

import invoker
import pytest
from conftest import PROVIDERS, run_script


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


@pytest.fixture
def serving_echo():
    with invoker.serve({"echo": bytes, "twice": lambda request: 2 * bytes(request)}, window=1 << 18) as server:
        yield server


@pytest.mark.parametrize("how", ["submit", "acall"])
def test_a_call_that_waits_for_its_executor_ends_at_its_deadline(holding_over_tcp, how):
    with invoker.connect(holding_over_tcp.address) as client:
        data = bytes(client.max_payload + 1)
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
        assert not all(future.done() for future in held) and not patient.done()
        holding_over_tcp.leave.set()
        assert patient.result() == len(data)


def test_a_call_can_be_cancelled(holding_over_tcp):
    with invoker.connect(holding_over_tcp.address) as client:
        data = bytes(client.max_payload + 1)
        held = client.remote("hold").submit(data)
        holding_over_tcp.entered.acquire()
        queued = client.remote("hold").submit(data)
        assert queued.cancel() and queued.cancelled()
        holding_over_tcp.leave.set()
        assert held.result() == len(data)
        assert client.remote("size")(data) == len(data)
        # The function has not begun with it.
        assert not holding_over_tcp.entered.acquire(blocking=False)


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


def test_closing_the_client_ends_calls_that_wait_for_their_executor(holding_over_tcp):
    client = invoker.connect(holding_over_tcp.address)
    data = bytes(client.max_payload + 1)
    held = client.remote("hold").submit(data)
    holding_over_tcp.entered.acquire()
    queued = [client.remote("size").submit(data) for _ in range(3)]
    client.close()
    for future in [held, *queued]:
        assert isinstance(future.exception(60), invoker.Cancelled)


def test_the_answer_of_a_started_call_may_be_as_long_as_its_request_or_out(serving_echo):
    with invoker.connect(serving_echo.address) as client:
        large = bytes(range(256)) * (client.max_payload // 256 + 1)
        out = bytearray(2 * len(large))
        assert client.submit("echo", large).result() == large
        assert client.submit("twice", large, out=out).result() == 2 * large == out
        assert isinstance(client.submit("twice", large).exception(), invoker.ResourceExhausted)
        short = bytearray(10)
        assert isinstance(client.submit("echo", large, out=short).exception(), invoker.ResourceExhausted)
        assert short == bytes(10)
        assert client.submit("echo", b"x" * client.max_payload, out=out).result() == b"x" * client.max_payload
