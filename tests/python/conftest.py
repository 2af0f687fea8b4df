"""Real servers for the tests, one for each provider, with the example functions and the test functions."""

import contextlib
import glob
import json
import logging
import os
import pathlib
import pwd
import random
import select
import signal
import subprocess
import sys
import textwrap
import time

import invoker
import pytest

SERVER = os.path.abspath("tools/invoker_server")
LIBRARIES = ",".join(
    os.path.abspath(path)
    for path in (
        "examples/functions/libexample_functions.so",
        "tests/functions/test_functions.so",
        "tests/integration/rendezvous_function.so",
    )
)
PROVIDERS = ["tcp;ofi_rxm", "shm"]
# An option of servers: executors run as the user of the test.
OWN_USER = "--executor-user=" + pwd.getpwuid(os.getuid()).pw_name

# Beside other tests a server may be silent for longer than calls wait for it by default.
PATIENCE = "invoker.connect.__kwdefaults__['peer_timeout'] = 5.0"
exec(PATIENCE)

# Before a command: it dies with the test, and Ctrl-C works even if the tests run in the background. Not by preexec_fn: what that
# runs after a fork may wait for a lock of a thread that is not there.
WITH_THE_TEST = ["env", "--default-signal=INT", "setpriv", "--pdeathsig", "KILL", "--"]


def shared_memory(process):
    """The files in /dev/shm of a process that was started by this one: invoker.NAMESPACE.PID.START.LAST."""

    def start(path):
        return int(path.split(".")[3])

    own = int(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    space = os.stat("/proc/self/ns/pid").st_ino
    return [path for path in glob.glob("/dev/shm/invoker.%d.%d.*" % (space, process)) if start(path) >= own]


def remove_shared_memory(process):
    """What a killed process could not remove."""
    for path in shared_memory(process):
        # A server removes the same of clients whose lease it had.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def loopback_address_of_its_own():
    """Where a server listens that is to come back on its port: on 127.0.0.1 another program may take it meanwhile."""
    return "127.%d.%d.%d:0" % tuple(random.randint(1, 250) for _ in range(3))


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


def come_to_rest(pid):
    """Waits until none of its threads runs, for a while at most.

    Who is killed in the middle of a poll over shm may hold a lock in the other's memory (docs/design/libfabric.md, "Traps").
    """
    limit = time.monotonic() + 1
    while time.monotonic() < limit and "R" in thread_states(pid):
        time.sleep(0.002)


@contextlib.contextmanager
def hearing(folder):
    """Yields what tells what this process, its servers and the logger "invoker" have said meanwhile, and its servers later.

    Not capfd: to read that loses what is written at the same moment.
    """
    path = folder / "stderr"
    before = os.dup(2)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(file, 2)
    os.close(file)
    logger = logging.getLogger("invoker")
    handler = logging.FileHandler(path)
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        yield path.read_text
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
        handler.close()
        os.dup2(before, 2)
        os.close(before)


def thread_states(pid):
    """The kernel's letter for each thread."""
    states = []
    for path in glob.glob("/proc/%d/task/*/stat" % pid):
        try:
            with open(path) as stat:
                states.append(stat.read().rpartition(")")[2].split()[0])
        except OSError:
            pass  # it has ended meanwhile
    return states


class Server:
    """A server process of its own, with one provider or several, separated by commas."""

    def __init__(self, provider, *options, listen="127.0.0.1:0"):
        self.provider = provider
        self.process = subprocess.Popen(
            [
                *WITH_THE_TEST,
                SERVER,
                "--listen=" + listen,
                "--provider=" + provider,
                "--functions=" + LIBRARIES,
                "--hot-timeout=1ms",
                *options,
            ],
            stdout=subprocess.PIPE,
        )
        line = self.process.stdout.readline()
        assert line, "the server did not start: exit code %s" % self.process.wait()
        self.ready = json.loads(line)
        self.address = self.ready["listen"]

    def start_again(self):
        """Another one in its place: on its port, with its provider. It has listened at an address of its own."""
        return Server(self.provider, listen=self.address)

    def stop(self):
        """Ends it in good order."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait() == 0
        self.process.stdout.close()

    def stop_if_running(self):
        """For the end of a test that may have ended it."""
        if self.process.returncode is None:
            self.stop()

    def kill(self):
        """Ends it as a crash would."""
        come_to_rest(self.process.pid)
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        remove_shared_memory(self.process.pid)


class Serving:
    """A process that serves remote_functions.py."""

    def __init__(self, provider):
        program = os.path.join(os.path.dirname(__file__), "remote_functions.py")
        self.process = subprocess.Popen(
            [*WITH_THE_TEST, sys.executable, program, provider],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.address = self.process.stdout.readline().strip()
        assert self.address, "it did not start: exit code %s" % self.process.wait()

    def stop(self):
        """Ends it in good order."""
        self.process.stdin.close()
        assert self.process.wait() == 0
        self.process.stdout.close()

    def kill(self):
        """Ends it as a crash would."""
        come_to_rest(self.process.pid)
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        remove_shared_memory(self.process.pid)


class Rendezvous:
    """The test's side of test.rendezvous: knows that a call runs, and decides when it ends, without a clock."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "call").encode()
        self._started, self._release = (self._make_fifo(end) for end in (b".started", b".release"))

    def _make_fifo(self, end):
        os.mkfifo(self.path + end)
        # For both, so that neither side waits for the other, and nobody sees an end of file.
        return os.open(self.path + end, os.O_RDWR)

    def wait_until_running(self):
        """Until a call runs of which no wait_until_running() knows."""
        ready, _, _ = select.select([self._started], [], [], 60)
        assert ready, "no call has begun"
        os.read(self._started, 1)

    def release(self):
        """Lets one call end."""
        os.write(self._release, b"x")

    def close(self):
        os.close(self._started)
        os.close(self._release)


@pytest.fixture
def rendezvous(tmp_path):
    made = Rendezvous(str(tmp_path))
    yield made
    made.close()


@pytest.fixture(scope="session", params=PROVIDERS)
def server(request):
    running = Server(request.param)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def server_of_all():
    """A server of every fabric that works here."""
    running = Server("auto")
    yield running
    running.stop()


@pytest.fixture
def client(server):
    with invoker.connect(server.address) as opened:
        yield opened


@pytest.fixture(scope="module")
def worker():
    """A server that leases four executors of Python and native functions, and takes code."""
    running = Server(
        "auto",
        "--lease-cores=4",
        "--lease-memory=4G",
        "--allow-upload=all",
        "--python=/usr/bin/python3",
        "--prestart-python=1",
        # The server's own, so that there is shared memory too.
        OWN_USER,
    )
    yield running
    running.stop()


@pytest.fixture(params=PROVIDERS)
def own_server(request):
    """A server that the test may treat as it likes, and have come back."""
    running = Server(request.param, listen=loopback_address_of_its_own())
    yield running
    if running.process.returncode is None:
        running.kill()


def run_script(code, address=None, *, check=True, options=("-X", "dev", "-W", "error"), environment={}):
    """Runs Python code in a process of its own, with `invoker` imported and ADDRESS set, warnings as errors."""
    head = "import os, signal, sys, threading, time\nimport invoker\n%s\nADDRESS = %r\n" % (PATIENCE, address)
    done = subprocess.run(
        [*WITH_THE_TEST, sys.executable, *options, "-c", head + textwrap.dedent(code)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture
def script(server):
    """run_script() with the server's address."""

    def run(code, **options):
        return run_script(code, server.address, **options)

    return run


def microseconds(number):
    """The input of test.sleep."""
    return number.to_bytes(4, "little")
