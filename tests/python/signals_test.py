"""What a program sets for SIGINT and SIGTERM stays while a fabric opens, though libfabric installs handlers of its own."""

import concurrent.futures
import signal
import threading
import time

import invoker
import pytest
from conftest import run_script

# In a process of its own. A proxy before the server keeps connect() waiting, before it opens a fabric, until the main thread
# has set what it wants.
_PROGRAM = """
    import ctypes, socket

    host, _, port = ADDRESS.rpartition(":")
    listening = socket.create_server(("127.0.0.1", 0))
    asked, may_go_on = threading.Event(), threading.Event()

    def hand_on(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def serve():
        while True:
            one = listening.accept()[0]
            asked.set()
            may_go_on.wait()
            other = socket.create_connection((host, int(port)))
            for pair in ((one, other), (other, one)):
                threading.Thread(target=hand_on, args=pair, daemon=True).start()

    def connect():
        clients.append(invoker.connect("127.0.0.1:%d" % listening.getsockname()[1], connect_timeout=60))

    def handler(number):
        action = (ctypes.c_void_p * 64)()
        ctypes.CDLL(None).sigaction(int(number), None, action)
        return action[0] or 0

    clients = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("before"))
    connecting = threading.Thread(target=connect)
    threading.Thread(target=serve, daemon=True).start()
    connecting.start()
    asked.wait()
    for number in numbers:
        signal.signal(number, SET)
    may_go_on.set()
    connecting.join()
    print(clients[0].provider, bytes(clients[0].call("echo", b"x")), flush=True)
"""


def run(server, set_meanwhile, then):
    program = _PROGRAM.replace("SET", set_meanwhile) + "    %s\n" % then
    # Warnings would be of sockets that the proxy leaves open.
    done = run_script(program, server.address, check=False, options=())
    assert done.stderr == ""
    first, _, rest = done.stdout.partition("\n")
    assert first == "%s b'x'" % server.provider
    return done.returncode, rest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_default_actions_set_while_a_fabric_opens_stay(server, number):
    then = "signal.raise_signal(%d); print('alive')" % number
    assert run(server, "signal.SIG_DFL", then) == (-number, "")


def test_signals_ignored_while_a_fabric_opens_stay_so(server):
    then = "print(*map(handler, numbers))"
    assert run(server, "signal.SIG_IGN", then) == (0, "%d %d\n" % (signal.SIG_IGN, signal.SIG_IGN))


def test_handlers_set_while_a_fabric_opens_stay(server):
    then = "[signal.raise_signal(number) for number in numbers * 2]"
    assert run(server, "lambda number, _: print(number)", then) == (0, "2\n15\n2\n15\n")


# What waits on the main thread, as statements of a program whose function "wait" does not return.
_WAITS = {
    "server": "server.wait()",
    "future": "client.submit('wait').result()",
    "future with a timeout": "client.submit('wait').result(timeout=1e6)",
    "exception": "client.submit('wait').exception()",
    "map": "list(client.map('wait', [b'']))",
}


@pytest.mark.parametrize("wait", _WAITS.values(), ids=_WAITS)
def test_a_signal_that_another_thread_got_ends_a_wait(wait):
    # The kernel decides which thread gets the signal for a process.
    done = run_script(
        """
        begun = threading.Event()

        def interrupt():
            main = threading.main_thread().ident
            begun.wait()
            while sys._current_frames()[main].f_code.co_name not in ("wait", "_await", "_results"):
                time.sleep(0.001)
            # So that it has begun to wait, most likely; sooner is right, too.
            time.sleep(0.02)
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)

        leave = threading.Event()
        with invoker.serve({"wait": lambda request: leave.wait() and b""}) as server:
            with invoker.connect(server.address) as client:
                threading.Thread(target=interrupt, daemon=True).start()
                try:
                    begun.set()
                    WAIT
                except KeyboardInterrupt:
                    print("interrupted")
                leave.set()
        """.replace("WAIT", wait)
    )
    assert done.stdout == "interrupted\n"


def test_the_end_of_a_call_ends_a_wait_before_callbacks_run():
    with invoker.serve({"wait": lambda request: leave.wait() and b"x"}) as server, invoker.connect(server.address) as client:
        leave, read = threading.Event(), threading.Event()
        future = client.submit("wait")
        # Were it waited for, neither would go on.
        future.add_done_callback(lambda _: read.wait())
        threading.Timer(0.05, leave.set).start()
        assert future.result() == b"x" and future.exception(timeout=0) is None
        read.set()


def test_a_wait_for_a_future_may_end_before_the_call():
    with invoker.serve({"wait": lambda request: leave.wait() and b"x"}) as server, invoker.connect(server.address) as client:
        leave = threading.Event()
        future = client.submit("wait")
        for timeout in (0, 0.01, 0.15):
            for wait in (future.result, future.exception):
                began = time.monotonic()
                with pytest.raises(concurrent.futures.TimeoutError):
                    wait(timeout=timeout)
                assert time.monotonic() - began >= timeout
        leave.set()
        assert future.result(timeout=60) == b"x"


def test_a_server_is_waited_for_by_any_thread():
    with invoker.serve({"echo": bytes}) as server:
        with pytest.raises(ValueError, match="not a number"):
            server.wait(float("nan"))
        assert not server.wait(-1) and not server.wait(0) and not server.wait(0.15)
        ended = []
        waiting = [threading.Thread(target=lambda: ended.append(server.wait())) for _ in range(3)]
        for thread in waiting:
            thread.start()
    for thread in waiting:
        thread.join()
    assert ended == [True] * 3 and server.wait(0)
