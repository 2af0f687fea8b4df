"""Leases: executors of one's own, code shipped to them, and the bill."""

import asyncio
import glob
import math
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading

import invoker
import numpy
import pytest
from conftest import OWN_USER, WITH_THE_TEST, Server, comes_true, remove_shared_memory, run_script

UPLOADED = os.path.abspath("tests/functions/c_functions.so")


def total(array):
    """Lives in this file, which is not installed: its code has to go along."""
    return helper(array).sum()


def helper(array):
    return array * 2


@pytest.fixture
def client(worker):
    with invoker.connect(worker.address) as opened:
        yield opened


def processes_of(pid):
    """The process, and what descends from it."""
    found = [pid]
    for parent in found:
        for path in glob.glob("/proc/%d/task/*/children" % parent):
            found += map(int, pathlib.Path(path).read_text().split())
    return found


def test_a_session_with_two_executors_maps_a_numpy_function_and_shows_its_bill(client):
    with client.lease(executors=2) as lease:
        assert len(lease) == 2 and "2 executors" in repr(lease)

        @lease.function
        def mean(array):
            return array.mean()

        arrays = [numpy.full(1000, i, dtype=float) for i in range(100)]
        progress = []
        means = mean.map(arrays, progress=lambda done, of: progress.append((done, of)))
        assert list(means) == list(range(100))
        assert progress[-1] == (100, 100)
        assert mean.local(arrays[3]) == 3
        assert lease.usage.cause == ""
    bill = lease.usage
    assert bill is lease.close()
    assert bill.cause == "released" and bill.calls >= 100
    assert bill.bytes_in > 100 * 8000 and bill.lease_time > 0 and bill.function_time > 0
    assert "calls           %d\n" % bill.calls in str(bill)


def test_usage_can_be_asked_for_while_the_lease_is_open(client):
    with client.lease(tenant="mine") as lease, client.lease(tenant="mine") as other:
        echo = lease.function("echo")
        before = lease.usage
        assert before.cause == "" and before.lease_time > 0 and before.calls == 0
        for _ in range(7):
            echo(b"12345")
        # The executor shows what it has counted a little later.
        seen = lease.usage
        while seen.calls < 7:
            seen = lease.usage
        assert seen.calls == 7 and seen.bytes_in == 35 and seen.bytes_out == 35
        assert seen.lease_time > before.lease_time
        assert other.usage.calls == 0
        with pytest.raises(invoker.Aborted):
            lease.register(os.abort, name="end")()
        # It has ended by itself: this is the bill, before anybody has closed it.
        over = lease.usage
        assert over.cause == "crashed" and over.calls >= 7
        assert lease.close() == over


def test_calls_spread_over_the_executors(client):
    with client.lease(executors=2) as lease:
        pid = lease.register(lambda seconds: (__import__("time").sleep(seconds), os.getpid())[1], name="pid")
        assert pid.name == "pid" and "pid" in lease.functions()
        futures = [pid.submit(0.2) for _ in range(2)]
        assert len({future.result() for future in futures}) == 2
        assert os.getpid() not in {future.result() for future in futures}


def test_code_of_a_module_that_is_not_installed_goes_along(client):
    with client.lease() as lease:
        remote = lease.function(total)
        assert remote(numpy.arange(10)) == 90
        again = lease.function(total)
        assert again.name != remote.name and again(numpy.arange(3)) == 6


def test_every_way_of_calling(client):
    with client.lease() as lease:
        double = lease.function(helper)
        array = numpy.arange(100_000.0)
        for result in (double(array), double.submit(array).result(), asyncio.run(double.acall(array))):
            assert numpy.array_equal(result, array * 2)
        with pytest.raises(TypeError) as caught:
            double(None)
        assert "in helper\n" in str(caught.value.__cause__)


def test_the_workers_own_functions_and_uploaded_ones(client):
    with client.lease(python=False) as lease:
        assert lease.call("echo", b"abc") == b"abc"
        assert lease.function("echo")(b"abc") == b"abc"
        assert [bytes(x) for x in lease.map("echo", [b"1", b"2"])] == [b"1", b"2"]
        assert lease.ping() > 0
        names = lease.upload(UPLOADED)
        assert "c.reverse" in names and set(names) <= set(lease.functions())
        assert lease.call("c.reverse", b"abc") == b"cba"
        with pytest.raises(invoker.InvokerError):
            lease.register(helper)
    with pytest.raises(FileNotFoundError):
        client.lease().upload("/no/such.so")


def test_terms_are_granted_and_refused(client):
    with client.lease(memory="256M", ttl=60, call_limit=5, polling="warm", tenant="me") as lease:
        terms = lease.terms
        assert terms["memory"] == 256 << 20 and terms["ttl"] == 60 and terms["call_limit"] == 5
        assert terms["polling"] == "warm" and terms["executors"] == 1 and lease.ended is None
        assert client.capacity().free_cores == client.capacity().cores - 1
    with client.lease(hot_timeout=0.5) as lease:
        assert lease.terms["polling"] == "adaptive" and lease.terms["hot_timeout"] == 0.5
    for wrong in ({"executors": 0}, {"executors": 1000}, {"memory": "much"}, {"memory": 0}, {"ttl": -1},
                  {"polling": "cold"}, {"memory": "10T"}):
        with pytest.raises(ValueError):
            client.lease(**wrong)


def test_a_second_client_gets_its_lease_after_the_first_gave_back(client, worker):
    everything = client.lease(executors=client.capacity().cores)
    with invoker.connect(worker.address) as other:
        with pytest.raises(invoker.ResourceExhausted):
            other.lease()
        with pytest.raises(invoker.ResourceExhausted):
            other.lease(wait=0.1)
        everything.close()
        with other.lease(wait=60) as lease:
            assert lease.call("echo", b"x") == b"x"


def test_ctrl_c_ends_waiting_in_line(client, worker):
    with client.lease(executors=client.capacity().cores):
        run_script(
            """
            client = invoker.connect(ADDRESS)
            try:
                threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
                client.lease(wait=float("inf"))
            except KeyboardInterrupt:
                pass
            else:
                sys.exit("not interrupted")
            client.close()
            """,
            worker.address,
        )


@pytest.mark.parametrize(
    "end, cause, words",
    [
        (lambda: __import__("ctypes").string_at(0), "crashed", "signal|SIGSEGV"),
        (lambda: os._exit(3), "exited", "3"),
        (lambda: os.abort(), "crashed", "SIGABRT|signal"),
    ],
    ids=["null", "exit", "abort"],
)
def test_a_function_that_ends_its_process_ends_its_lease_and_no_other(client, end, cause, words):
    with client.lease() as other, client.lease() as lease:
        echo = other.function("echo")
        with pytest.raises(invoker.Aborted, match=words):
            lease.register(end, name="end")()
        with pytest.raises(invoker.Aborted):
            lease.call("echo", b"x")
        assert isinstance(lease.ended, invoker.Aborted)
        assert lease.close().cause == cause
        assert echo(b"still there") == b"still there" and other.ended is None


def test_a_client_ships_functions_without_asking_for_a_lease(worker):
    with invoker.connect(worker.address) as client:
        before = client.capacity().free_cores

        @client.function
        def square(x):
            return x * x

        cube = client.register(lambda x: x**3, name="cube")
        assert client.capacity().free_cores == before
        assert square(7) == 49 and cube.submit(2).result() == 8
        assert asyncio.run(square.acall(3)) == 9
        assert list(square.map(range(5))) == [0, 1, 4, 9, 16]
        functions = client.upload(UPLOADED)
        assert functions["c.greet.de"]() == b"hallo"
        assert client.capacity().free_cores == before - 1
    with pytest.raises(invoker.FailedPrecondition):
        square(1)
    with invoker.connect(worker.address) as client:
        assert client.capacity().free_cores == before


def test_functions_of_a_client_are_shipped_again_after_their_lease_has_ended(worker):
    with invoker.connect(worker.address) as client:
        before = client.capacity().free_cores

        @client.function
        def square(x):
            return x * x

        end = client.register(os.abort, name="end")
        assert square(3) == 9
        for _ in range(2):
            with pytest.raises(invoker.Aborted) as crashed:
                end()
            assert crashed.value.fate == "maybe_executed"
            # Every way of calling finds the new lease, the first one takes it.
            assert asyncio.run(square.acall(5)) == 25
            assert square(4) == 16 and square.submit(6).result() == 36
            assert list(square.map(range(3))) == [0, 1, 4]
            assert client.capacity().free_cores == before - 1
        with pytest.raises(invoker.Aborted):
            end()
    with pytest.raises(invoker.FailedPrecondition):
        square(1)
    with invoker.connect(worker.address) as client:
        assert client.capacity().free_cores == before


def test_an_unclosed_lease_ends_with_its_program(client, worker):
    run_script(
        """
        client = invoker.connect(ADDRESS)
        lease = client.lease(executors=2)
        assert lease.call("echo", b"x") == b"x"
        """,
        worker.address,
    )
    with client.lease(executors=client.capacity().cores, wait=60) as lease:
        assert lease.ended is None


def test_a_killed_clients_lease_is_freed(client, worker):
    code = """
        import sys, threading, invoker
        lease = invoker.connect(sys.argv[1]).lease(executors=4)
        print("ready", flush=True)
        threading.Event().wait()
    """
    process = subprocess.Popen(
        [*WITH_THE_TEST, sys.executable, "-c", textwrap.dedent(code), worker.address],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    with pytest.raises(invoker.ResourceExhausted):
        client.lease()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    remove_shared_memory(process.pid)
    with client.lease(executors=4, wait=60) as lease:
        assert lease.call("echo", b"x") == b"x"


@pytest.mark.skipif(
    bool(os.environ.get("INVOKER_SANITIZER")),
    reason="a sanitizer ends the process that gets no more address space",
)
def test_a_function_that_asks_for_too_much_memory_has_an_error_or_ends_its_lease(client):
    with client.lease(memory="256M") as lease:
        take = lease.register(lambda size: len(bytearray(size)), name="take")
        assert take(1 << 20) == 1 << 20
        try:
            take(1 << 30)
        except MemoryError:
            # Address space is limited: the rest of the process is as it was.
            assert take(1 << 20) == 1 << 20 and lease.ended is None
        except invoker.Aborted:
            # Memory is, by cgroups: nothing of the process is left.
            assert lease.close().cause == "memory_limit"
        else:
            pytest.fail("it got four times its memory")


def test_a_bill_that_nobody_sends_is_not_known():
    server = Server("auto", "--lease-cores=1")
    with invoker.connect(server.address) as client:
        lease = client.lease()
        assert lease.call("echo", b"x") == b"x" and lease.usage.known
        server.kill()
        bill = lease.close()
        assert bill.cause == "unknown" and not bill.known and bill.reason
        assert all(math.isnan(number) for number in (bill.calls, bill.cpu_time, bill.lease_time))
        assert bill.reason in str(bill) and "nan" not in str(bill)


def test_every_thread_that_closes_a_lease_gets_its_bill(client):
    for _ in range(5):
        lease = client.lease()
        assert lease.call("echo", b"x") == b"x"
        barrier = threading.Barrier(4)
        bills = []

        def close():
            barrier.wait()
            bills.append(lease.close())

        threads = [threading.Thread(target=close) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(bills) == 4 and set(bills) == {lease.usage} and lease.usage.cause == "released"


def test_executors_of_a_root_server_are_nobodys():
    server = Server("auto", "--lease-cores=1", "--allow-upload=python", "--python=/usr/bin/python3")
    try:
        with invoker.connect(server.address) as client, client.lease() as lease:
            user = lease.register(lambda array: (os.getuid(), array.sum()), name="user")
            uid, result = user(numpy.arange(10))
            assert result == 45
            # On any other user's server they are that user's.
            assert uid != 0 if os.getuid() == 0 else uid == os.getuid()
    finally:
        server.stop()


def test_a_worker_whose_processes_are_all_told_to_end_answers_its_calls_first(rendezvous):
    server = Server(
        "tcp;ofi_rxm",
        "--lease-cores=1",
        "--allow-upload=python",
        "--python=/usr/bin/python3",
        OWN_USER,
    )
    path = rendezvous.path.decode()

    def held():
        with open(path + ".started", "wb", buffering=0) as started, open(path + ".release", "rb", buffering=0) as release:
            started.write(b"x")
            release.read(1)
        return "held"

    try:
        with invoker.connect(server.address) as client, client.lease() as lease:
            answer = lease.register(held, name="held").submit()
            rendezvous.wait_until_running()
            processes = processes_of(server.process.pid)
            assert len(processes) >= 3
            # A batch system does so.
            for process in processes:
                os.kill(process, signal.SIGTERM)
            assert comes_true(lambda: is_draining(client))
            assert not answer.done()
            rendezvous.release()
            assert answer.result() == "held"
            assert server.process.wait() == 0
    finally:
        server.stop_if_running()


def is_draining(client):
    try:
        client.call("echo", b"")
    except invoker.Unavailable as error:
        return "draining" in str(error)
    return False


def test_arrays_larger_than_the_windows_go_to_a_lease_and_back(worker):
    with invoker.connect(worker.address, window=1 << 16) as client, client.lease(memory="1G") as lease:
        add = lease.register(lambda array, n: array + n, name="add")
        array = numpy.arange(4_000_000.0)
        assert numpy.array_equal(add(array, 1), array + 1)
        assert numpy.array_equal(add.submit(array, 2).result(), array + 2)
        assert lease.max_payload < 1 << 16
