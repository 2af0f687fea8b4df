"""Beginnings and ends: interpreters that exit, signals, forks, servers that go away."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import weakref

import invoker
import pytest
from conftest import WITH_THE_TEST, Server, microseconds, shared_memory


def test_leaving_the_context_closes(server):
    with invoker.connect(server.address) as client:
        client.call("echo", b"x")
    with pytest.raises(invoker.FailedPrecondition):
        client.call("echo", b"x")


def test_a_client_that_nobody_refers_to_goes_away(server):
    client = invoker.connect(server.address)
    future = client.submit("echo", b"x")
    # Somebody has to run the callback.
    future.add_done_callback(lambda _: None)
    future.result()
    before = {thread for thread in threading.enumerate() if thread.name == "invoker"}
    assert before
    gone = weakref.ref(client._calls)
    del client, future
    gc.collect()
    assert gone() is None
    assert not any(thread.is_alive() for thread in before)


def test_works_in_development_mode_with_warnings_as_errors(script):
    script(
        """
        with invoker.connect(ADDRESS) as client:
            assert client.call("echo", b"x") == b"x"
            assert client.submit("echo", b"y").result() == b"y"
        """
    )


def test_numpy_is_not_imported_unless_asked_for(script):
    script(
        """
        sys.modules["numpy"] = None
        with invoker.connect(ADDRESS) as client:
            assert client.call("echo", memoryview(b"abcd")[::2]) == b"ac"
            assert client.call("echo", b"x", out=bytearray(4)) == b"x"
            try:
                client.call("echo", b"x", dtype="i4")
            except ImportError:
                pass
            else:
                sys.exit("no error")
        """
    )


def test_has_the_projects_version():
    assert invoker.__version__.count(".") == 2


@pytest.mark.parametrize(
    "use",
    [
        "client.call('echo', b'x')",
        "client.submit('echo', b'x').result()",
        "futures = [client.submit('test.sleep', (400_000).to_bytes(4, 'little')) for _ in range(3)]",
        "threading.Thread(target=client.call, args=('test.sleep', (400_000).to_bytes(4, 'little')),"
        " daemon=True).start()",
    ],
)
def test_an_unclosed_client_neither_hangs_nor_crashes_the_exit(script, use):
    done = script(
        """
        threading.excepthook = lambda arguments: None
        client = invoker.connect(ADDRESS)
        """
        + "%s\n        print('end', flush=True)\n" % use,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


def test_an_exception_with_an_open_client_ends_the_process_as_usual(script):
    done = script("client = invoker.connect(ADDRESS); client.submit('echo'); raise KeyError('mine')", check=False)
    assert done.returncode == 1 and "KeyError: 'mine'" in done.stderr


def test_ctrl_c_ends_a_blocking_call(script):
    script(
        """
        before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
        with invoker.connect(ADDRESS) as client:
            assert before == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
            client.call("echo", b"x")
            for _ in range(2):
                timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
                try:
                    timer.start()
                    client.call("test.sleep", (1_000_000).to_bytes(4, "little"))
                except KeyboardInterrupt:
                    print("interrupted")
                else:
                    sys.exit("not interrupted")
                timer.join()
            assert client.call("echo", b"again") == b"again"
        """
    )


def test_signal_handlers_run_during_a_call_and_may_let_it_go_on(script):
    done = script(
        """
        signal.signal(signal.SIGALRM, lambda *_: print("alarm"))
        with invoker.connect(ADDRESS) as client:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            assert client.call("test.sleep", (400_000).to_bytes(4, "little")) == b""
            print("result")
        """
    )
    assert done.stdout == "alarm\nresult\n"


def test_a_signal_handler_may_raise_while_the_result_arrives(script):
    done = script(
        """
        import time
        def late(*_):
            time.sleep(0.6)
            raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, late)
        with invoker.connect(ADDRESS) as client:
            for out in (None, bytearray(64)):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.05)
                    client.call("test.sleep", (500_000).to_bytes(4, "little"), out=out)
                except KeyboardInterrupt:
                    print("interrupted")
        """
    )
    assert done.stdout == "interrupted\ninterrupted\n"


def test_ctrl_c_while_a_call_is_being_started_costs_no_other_call(server):
    with invoker.connect(server.address) as client:
        dispatcher = client._calls.dispatcher
        echo = client.function("echo")

        def before():
            raise KeyboardInterrupt

        def after():
            echo.begin(b"nobody's", True)
            raise KeyboardInterrupt

        for interrupted in (before, after):
            with pytest.raises(KeyboardInterrupt):
                dispatcher.start(interrupted)
        assert dispatcher._watched == {}
        assert client.submit("echo", b"later").result(60) == b"later"


def test_ctrl_c_ends_a_wait_for_room(script):
    script(
        """
        with invoker.connect(ADDRESS) as client:
            sleep = (1_000_000).to_bytes(4, "little")
            client.submit("test.sleep", sleep, response_capacity=client.max_payload)
            try:
                threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
                client.submit("echo", b"x")
            except KeyboardInterrupt:
                print("interrupted")
            else:
                sys.exit("not interrupted")
        """
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_from_outside_ends_the_process_as_it_ends_any_python(server, number):
    code = """
        import sys, time, invoker
        client = invoker.connect(sys.argv[1])
        client.submit("echo", b"x").result()
        print("ready", flush=True)
        # Not without a limit: the kernel may give the signal to a thread that is not Python's.
        while True:
            time.sleep(0.05)
    """
    process = subprocess.Popen(
        [*WITH_THE_TEST, sys.executable, "-c", textwrap.dedent(code), server.address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    _, errors = process.communicate()
    assert process.returncode == -number
    assert ("KeyboardInterrupt" in errors) == (number == signal.SIGINT)
    assert not shared_memory(process.pid)


def test_a_forked_process_is_told_and_ends_cleanly(script):
    done = script(
        """
        client = invoker.connect(ADDRESS)
        client.submit("echo", b"x").result()
        for end in (os._exit, sys.exit):
            child = os.fork()
            if child == 0:
                for use in (client.call, client.submit):
                    try:
                        use("echo", b"x")
                    except invoker.FailedPrecondition as error:
                        assert "fork" in str(error), error
                    else:
                        os._exit(7)
                client.close()
                end(5)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert status == 5, status
            assert client.call("echo", b"x") == b"x"
        client.close()
        """,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_calls_fail_when_the_server_is_killed(own_server):
    client = invoker.connect(own_server.address)
    assert client.call("echo", b"x") == b"x"
    future = client.submit("test.sleep", microseconds(30_000_000))
    started = threading.Event()
    raised = []

    def block():
        started.set()
        try:
            client.call("test.sleep", microseconds(30_000_000))
        except invoker.InvokerError as error:
            raised.append(error)

    thread = threading.Thread(target=block)
    thread.start()
    started.wait()
    own_server.kill()
    thread.join()
    for error in (future.exception(), raised[0]):
        assert isinstance(error, invoker.Unavailable)
    assert future.exception().fate == "maybe_executed"
    with pytest.raises(invoker.Unavailable) as caught:
        client.call("echo", b"x")
    assert caught.value.fate == "not_sent"
    client.close()


def test_a_server_that_stops_says_so(own_server):
    with invoker.connect(own_server.address) as client:
        client.call("echo", b"x")
        own_server.stop()
        with pytest.raises(invoker.Unavailable):
            for _ in range(1000000):
                client.call("echo", b"x")


def test_several_clients_of_several_servers(server, own_server):
    with invoker.connect(server.address) as one, invoker.connect(own_server.address) as two:
        with invoker.connect(server.address) as three:
            for client in (one, two, three):
                assert client.call("echo", b"x") == b"x"
        assert one.call("echo", b"y") == two.call("echo", b"y")


def test_a_server_with_several_executors():
    server = Server("tcp;ofi_rxm", "--executors=2", "--window=65536")
    try:
        clients = [invoker.connect(server.address) for _ in range(3)]
        futures = [client.submit("echo", b"%d" % i) for i, client in enumerate(clients)]
        assert [bytes(future.result()) for future in futures] == [b"0", b"1", b"2"]
        assert clients[0].max_payload == 65536 - 32
        for client in clients:
            client.close()
    finally:
        server.stop()
