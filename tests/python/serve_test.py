"""invoker.serve: functions of bytes in the user's own process."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import invoker
import numpy
import pytest
from conftest import PROVIDERS, WITH_THE_TEST, run_script, shared_memory


@pytest.fixture(params=PROVIDERS)
def provider(request):
    return request.param


class Kept:
    """A function that keeps what it is given."""

    def __init__(self, take):
        self.take = take
        self.things = []

    def __call__(self, request):
        self.things.append(self.take(request))


def test_serves_functions_to_other_processes(provider):
    threads = []

    def reverse(request):
        threads.append(threading.get_ident())
        return bytes(request)[::-1]

    with invoker.serve({"reverse": reverse}, provider=provider) as server:
        assert server.providers == [provider]
        run_script(
            """
            with invoker.connect(ADDRESS) as client:
                assert client.functions() == ["reverse"]
                for data in (b"", b"abc", os.urandom(client.max_payload)):
                    assert client.call("reverse", data) == data[::-1]
            """,
            server.address,
        )
        assert server.calls == 3
    assert len(set(threads)) == 1 and threads[0] != threading.get_ident()


@pytest.mark.skipif("INVOKER_SANITIZER" in os.environ, reason="a sanitizer's runtime would have to be loaded first")
def test_a_fabric_that_crashes_in_its_self_test_is_left_out(tmp_path):
    code = """
        with invoker.serve({"reverse": lambda request: bytes(request)[::-1]}) as server:
            assert "shm" not in server.providers and "tcp;ofi_rxm" in server.providers, server.providers
            with invoker.connect(server.address) as client:
                assert client.call("reverse", b"abc") == b"cba"
        """
    helper = tmp_path / "helper"
    environment = {
        "LD_PRELOAD": os.path.abspath("tests/integration/end_in_self_test.so"),
        "INVOKER_TEST_END": "segv",
        "INVOKER_TEST_END_FILE": str(helper),
    }
    done = run_script(code, environment=environment)
    assert "shm is not offered: the self-test of provider shm died of SIGSEGV" in done.stderr
    assert not shared_memory(int(helper.read_text()))


@pytest.mark.parametrize(
    "answer",
    [b"bytes", bytearray(b"bytearray"), memoryview(b"memory")[1:], numpy.arange(6).reshape(2, 3).T, None, b""],
    ids=lambda answer: type(answer).__name__,
)
def test_answers_with_anything_bytes_like(answer):
    expected = b"" if answer is None else answer.tobytes() if hasattr(answer, "tobytes") else bytes(answer)
    with invoker.serve({"f": lambda request: answer}) as server, invoker.connect(server.address) as client:
        assert client.call("f") == expected


def test_a_request_is_read_only_memory_that_an_answer_may_be_a_part_of():
    seen = []

    def part(request):
        seen.append((type(request), request.readonly, request.format, len(request)))
        return request[1:3]

    with invoker.serve({"part": part}) as server, invoker.connect(server.address) as client:
        assert client.call("part", b"abcd") == b"bc"
    assert seen == [(memoryview, True, "B", 4)]


@pytest.mark.parametrize("answer", ["text", 3, [1]], ids=repr)
def test_an_answer_that_is_not_bytes_has_failed(answer):
    with invoker.serve({"f": lambda request: answer}) as server, invoker.connect(server.address) as client:
        with pytest.raises(invoker.FunctionFailed, match="returned %s" % type(answer).__name__):
            client.call("f")
        assert server.calls == 1


def test_an_answer_too_long_says_how_long_it_is():
    with invoker.serve({"f": lambda request: bytes(1000)}) as server, invoker.connect(server.address) as client:
        with pytest.raises(invoker.ResourceExhausted, match="1000"):
            client.call("f", response_capacity=999)
        assert len(client.call("f", response_capacity=1000)) == 1000


def test_an_exception_is_a_failed_call_with_type_message_and_place():
    def divide(request):
        return 1 // len(request)

    def leave(request):
        sys.exit(3)

    with invoker.serve({"divide": divide, "leave": leave}) as server, invoker.connect(server.address) as client:
        with pytest.raises(invoker.FunctionFailed, match="ZeroDivisionError: .*by zero\n.*, in divide") as caught:
            client.call("divide")
        assert caught.value.fate == "executed"
        with pytest.raises(invoker.FunctionFailed, match="SystemExit: 3"):
            client.call("leave")


def test_half_a_character_in_an_exception_is_shown():
    def find(request):
        raise ValueError("no such thing: " + bytes(request).decode("utf-8", "surrogateescape"))

    with invoker.serve({"find": find}) as server, invoker.connect(server.address) as client:
        with pytest.raises(invoker.FunctionFailed, match=r"ValueError: no such thing: \\udcff\n.*, in find"):
            client.call("find", b"\xff")


@pytest.mark.parametrize(
    "take",
    [
        lambda request: numpy.frombuffer(request, "u1"),
        lambda request: request[2:],
        lambda request: memoryview(request),
    ],
    ids=["array", "slice", "view"],
)
def test_a_function_that_keeps_its_request_has_failed(take):
    kept = Kept(take)
    with invoker.serve({"keep": kept}) as server, invoker.connect(server.address) as client:
        with pytest.raises(invoker.FunctionFailed, match="must copy what it keeps"):
            client.call("keep", b"abcd")
        kept.things.clear()
        kept.take = bytes
        assert client.call("keep", b"abcd") == b"" and kept.things == [b"abcd"]


def test_the_view_itself_ends_with_the_call():
    kept = Kept(lambda request: request)
    with invoker.serve({"keep": kept}) as server, invoker.connect(server.address) as client:
        client.call("keep", b"abcd")
        with pytest.raises(ValueError, match="released"):
            bytes(kept.things[0])


def test_what_only_the_collector_frees_is_not_kept():
    def cycle(request):
        ring = [numpy.frombuffer(request, "u1")]
        ring.append(ring)

    gc.disable()
    try:
        with invoker.serve({"cycle": cycle}) as server, invoker.connect(server.address) as client:
            assert client.call("cycle", b"abcd") == b""
    finally:
        gc.enable()


def test_calls_leave_no_references():
    data = bytes(1000)

    def answer(request):
        return data

    with invoker.serve({"f": answer}) as server, invoker.connect(server.address) as client:
        client.call("f")
        before = sys.getrefcount(data), len(gc.get_objects())
        for _ in range(200):
            client.call("f", b"x")
        gc.collect()
        assert sys.getrefcount(data) == before[0]
        assert len(gc.get_objects()) - before[1] < 100


def test_thread_locals_of_an_executor_stay_between_calls():
    local = threading.local()

    def count(request):
        local.count = getattr(local, "count", 0) + 1
        return b"%d" % local.count

    with invoker.serve({"count": count}) as server, invoker.connect(server.address) as client:
        assert [bytes(client.call("count")) for _ in range(3)] == [b"1", b"2", b"3"]


def test_several_executors_run_functions_at_the_same_time():
    both = threading.Barrier(2)

    def meet(request):
        both.wait(timeout=60)

    with invoker.serve({"meet": meet}, executors=2) as server:
        with invoker.connect(server.address) as one, invoker.connect(server.address) as two:
            for future in [one.submit("meet"), two.submit("meet")]:
                assert future.result() == b""


def test_a_function_may_call_another_server():
    with invoker.serve({"echo": bytes}) as inner, invoker.connect(inner.address) as inner_client:
        with invoker.serve({"relay": lambda request: inner_client.call("echo", request)}) as outer:
            with invoker.connect(outer.address) as client:
                assert client.call("relay", b"abc") == b"abc"


@pytest.mark.parametrize(
    "functions, options, error",
    [
        ({"f": 3}, {}, TypeError),
        ({"no spaces": bytes}, {}, ValueError),
        ({"": bytes}, {}, ValueError),
        ({"f": bytes}, {"listen": "nowhere"}, ValueError),
        ({"f": bytes}, {"provider": "no such"}, invoker.InvokerError),
        ({"f": bytes}, {"notify": "loudly"}, ValueError),
        ({"f": bytes}, {"data_auth": "loudly"}, ValueError),
        ({"f": bytes}, {"window": 5000}, ValueError),
        ({"f": bytes}, {"window": 0}, ValueError),
        ({"f": bytes}, {"executors": 0}, ValueError),
        ({"f": bytes}, {"hot_timeout": float("nan")}, ValueError),
        ({"f": bytes}, {"peer_timeout": 0.0}, ValueError),
        ({"f": bytes}, {"peer_timeout": 0.05}, ValueError),
        ({"f": bytes}, {"peer_timeout": 1e6}, ValueError),
    ],
    ids=str,
)
def test_what_cannot_be_served_is_refused(functions, options, error):
    with pytest.raises(error):
        invoker.serve(functions, **options)


def test_a_client_that_is_silent_for_the_peer_timeout_has_lost_its_lease(tmp_path):
    # One lease at a time, so that another client learns whether there is one.
    policy = tmp_path / "policy"
    policy.write_text('tenant { name: "all" anyone: true max_leases: 1 function: "*" }')
    options = {"provider": "tcp;ofi_rxm", "policy": policy}

    def is_taken(server):
        try:
            invoker.connect(server.address, provider="tcp;ofi_rxm").close()
            return False
        except invoker.ResourceExhausted:
            return True

    with invoker.serve({"f": bytes}, peer_timeout=3, **options) as impatient, invoker.serve(
        {"f": bytes}, peer_timeout=3600, **options
    ) as patient:
        code = """
            import sys, invoker
            clients = [invoker.connect(address, provider="tcp;ofi_rxm") for address in sys.argv[1:]]
            print("connected", flush=True)
            sys.stdin.read()
        """
        silent = subprocess.Popen(
            [*WITH_THE_TEST, sys.executable, "-c", textwrap.dedent(code), impatient.address, patient.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert silent.stdout.readline() == "connected\n"
            assert is_taken(patient)
            os.kill(silent.pid, signal.SIGSTOP)
            # Nothing tells when a lease is free again.
            while is_taken(impatient):
                time.sleep(0.01)
            assert is_taken(patient)
        finally:
            silent.kill()
            silent.communicate()


def test_a_closed_server_is_gone():
    server = invoker.serve({"echo": bytes})
    client = invoker.connect(server.address)
    assert client.call("echo", b"x") == b"x"
    assert not server.wait(0)
    server.close()
    server.close()
    assert server.wait() and "closed" in repr(server)
    with pytest.raises(invoker.Unavailable):
        client.call("echo", b"x")
    client.close()
    with pytest.raises(invoker.FailedPrecondition):
        server.calls


def test_close_waits_for_the_function_that_runs():
    entered, leave = threading.Event(), threading.Event()

    def slow(request):
        entered.set()
        leave.wait()
        return b"done"

    server = invoker.serve({"slow": slow})
    with invoker.connect(server.address) as client:
        future = client.submit("slow")
        entered.wait()
        closing = threading.Thread(target=server.close)
        closing.start()
        while "closed" not in repr(server):
            time.sleep(0.001)
        # It has begun, and does not end before the function does.
        assert not server.wait(0.2)
        leave.set()
        assert future.result() == b"done"
        closing.join()


def test_a_function_cannot_close_its_own_server():
    def close(request):
        server.close()

    with invoker.serve({"close": close}) as server, invoker.connect(server.address) as client:
        with pytest.raises(invoker.FunctionFailed, match="FailedPrecondition"):
            client.call("close")
        assert not server.wait(0)


def test_a_function_may_drop_its_own_server():
    done = run_script(
        """
        def drop(request):
            global server
            server = None
            return b"dropped"
        server = invoker.serve({"drop": drop})
        client = invoker.connect(server.address)
        assert client.call("drop") == b"dropped"
        try:
            while True:
                client.call("drop")
        except invoker.Unavailable:
            print("gone", flush=True)
        """,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "gone\n", "")


def test_a_server_that_nobody_refers_to_goes_away():
    server = invoker.serve({"echo": bytes})
    address = server.address
    del server
    gc.collect()
    with pytest.raises(invoker.Unavailable):
        invoker.connect(address, connect_timeout=2)


@pytest.mark.parametrize("end", ["", "raise KeyError('mine')", "sys.exit(0)"])
def test_a_program_with_an_open_server_ends_as_usual(end):
    done = run_script(
        "server = invoker.serve({'echo': bytes})\n"
        "client = invoker.connect(server.address)\n"
        "client.call('echo', b'x')\nprint('end', flush=True)\n" + end,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1 if "raise" in end else 0, "end\n"), done.stderr
    assert done.stderr.count("Traceback") == (1 if "raise" in end else 0), done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_serving_program_as_it_ends_any_python(number):
    code = """
        import sys, invoker
        with invoker.serve({"echo": bytes}) as server:
            with invoker.connect(server.address) as client:
                client.call("echo", b"x")
            print("ready", flush=True)
            server.wait()
    """
    process = subprocess.Popen(
        [*WITH_THE_TEST, sys.executable, "-c", textwrap.dedent(code)],
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


@pytest.mark.skipif(
    bool(os.environ.get("INVOKER_SANITIZER")),
    reason="a sanitizer's allocator has locks that a thread may have during the fork",
)
def test_a_forked_process_has_no_part_in_a_server():
    done = run_script(
        """
        server = invoker.serve({"echo": bytes})
        for end in (os._exit, sys.exit):
            child = os.fork()
            if child == 0:
                try:
                    server.calls
                except invoker.FailedPrecondition:
                    pass
                else:
                    os._exit(7)
                assert "another process" in repr(server)
                server.close()
                end(5)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert status == 5, status
            with invoker.connect(server.address) as client:
                assert client.call("echo", b"x") == b"x"
        server.close()
        """,
        check=False,
    )
    assert done.returncode == 0, done.stderr
