"""Data that stays in the executors of a lease, and references to it."""

import asyncio
import gc
import itertools
import os
import pickle
import subprocess
import sys
import textwrap

import invoker
import numpy
import pytest
from conftest import PATIENCE, PROVIDERS, WITH_THE_TEST, run_script

PARTICLE = numpy.dtype([("position", "f8", 3), ("mass", "f4"), ("id", "i4")], align=True)


@pytest.fixture(params=PROVIDERS)
def lease(worker, request):
    with invoker.connect(worker.address, provider=request.param) as client:
        with client.lease(executors=2, memory="512M") as taken:
            yield taken


def wait_for(lease, bytes_in):
    """Until the bill counts as much: an executor shows what it has counted a little later."""
    usage = lease.usage
    while usage.bytes_in < bytes_in:
        usage = lease.usage
    return usage


def test_a_map_over_a_shared_array_sends_it_once_to_each_executor(lease):
    @lease.function
    def pick(array, index):
        return array[index]

    shared = numpy.arange(1e6)
    data = lease.put(shared)
    assert data.shape == (1000000,) and data.dtype == "f8" and data.nbytes == 8000008 and not data.freed
    assert repr(data) == "<invoker.Reference to f64[:], shape (1000000,)>"
    wanted = range(0, 1000000, 5000)
    assert list(pick.map(itertools.repeat(data), wanted)) == list(shared[::5000])
    usage = wait_for(lease, 16000000)
    assert usage.calls <= 200 and usage.bytes_in < 16000000 + 200 * 1000


def test_the_wire_carries_a_shared_array_of_100_megabytes_once_for_each_executor():
    """In a network of its own, whose counters count nothing else."""
    script = """
        import fcntl, itertools, os, pwd, socket, struct, sys
        import numpy
        import invoker
        from conftest import Server

        with socket.socket() as any_socket:
            up = struct.pack("16sh", b"lo", 1)
            fcntl.ioctl(any_socket, 0x8914, up)  # SIOCSIFFLAGS: the loopback device is up


        def carried():
            with open("/proc/net/dev") as devices:
                lo = next(line for line in devices if line.strip().startswith("lo:"))
            return int(lo.split()[1])


        worker = Server(
            "tcp;ofi_rxm",
            "--lease-cores=2", "--lease-memory=2G", "--allow-upload=all", "--python=/usr/bin/python3",
            "--executor-user=" + pwd.getpwuid(os.getuid()).pw_name,
        )
        with invoker.connect(worker.address) as client, client.lease(executors=2, memory="512M") as lease:

            @lease.function
            def estimate(samples, seed):
                picked = numpy.random.default_rng(seed).integers(0, len(samples), 1000)
                return samples[picked].mean()

            samples = numpy.random.default_rng(0).normal(7.0, 1.0, 12500000)
            list(estimate.map([samples[:10]] * 4, range(4)))  # the code has gone there
            before = carried()
            shared = lease.put(samples)
            estimates = list(estimate.map(itertools.repeat(shared), range(200)))
            print(abs(numpy.mean(estimates) - 7.0) < 0.1, len(estimates), carried() - before)
        worker.stop()
    """
    space = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]
    code = PATIENCE.replace("invoker.", "__import__('invoker').", 1) + "\n" + textwrap.dedent(script)
    done = subprocess.run([*WITH_THE_TEST, *space, sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    close, count, carried = done.stdout.split()
    assert close == "True" and count == "200"
    assert 200e6 < int(carried) < 210e6


def test_typed_functions_take_references(lease):
    dot = lease.typed("dot", "(f64[:], f64[:]) -> f64")
    ones = numpy.ones(1000)
    data = lease.put(ones)
    assert dot(data, ones) == 1000 and dot(ones * 2, data) == 2000 and dot(data, data) == 1000
    assert list(dot.map([data] * 20, [ones * i for i in range(20)])) == [1000.0 * i for i in range(20)]
    assert asyncio.run(dot.acall(data, ones)) == 1000

    @lease.register
    @invoker.typed("({position: f64[3], mass: f32, id: i32}[:], bytes, optional[f64[:, :]]) -> i64")
    def count(particles, raw, matrix):
        assert not particles.flags.writeable
        return len(particles) + len(raw) + (0 if matrix is None else matrix.size)

    particles = lease.put(numpy.zeros(5, PARTICLE))
    raw = lease.put(b"1234567")
    matrix = lease.put(numpy.ones((3, 4))[:, ::2])
    assert raw.dtype is None and raw.shape == (7,)
    assert count(particles, raw, matrix) == 5 + 7 + 6
    assert count(numpy.zeros(2, PARTICLE), b"", None) == 2


def test_coroutines_and_concurrent_functions_take_references(lease):
    data = lease.put(numpy.arange(10.0))

    @lease.register
    @invoker.typed("(f64[:]) -> f64")
    async def later(array):
        return array.sum()

    @lease.register
    @invoker.pickled
    async def later_pickled(arrays):
        return sum(array.sum() for array in arrays)

    @lease.register
    @invoker.typed("(f64[:]) -> f64", concurrency=2)
    def beside(array):
        return array.sum()

    assert later(data) == 45 and beside(data) == 45
    assert later_pickled([data, data]) == 90
    assert list(beside.map([data] * 10)) == [45] * 10


def test_what_a_function_keeps_of_the_data_stays(lease):
    kept = []

    @lease.function
    def keep(array=None):
        if array is not None:
            kept.append(array[:3])
        return [part.tolist() for part in kept]

    data = lease.put(numpy.arange(1e6))
    keep(data)
    data.free()
    answers = [answer for answer in (keep() for _ in range(4)) if answer]
    assert answers and all(answer == [[0, 1, 2]] for answer in answers)


def test_a_call_under_way_keeps_its_references(lease):
    @lease.function
    def total(pair, delay):
        import time

        time.sleep(delay)
        return pair["of"].sum()

    dot = lease.typed("dot")
    data = lease.put(numpy.ones(100000))
    # More than run at the same time.
    pickled = [total.submit({"of": data}, 0.02) for _ in range(10)]
    typed = [dot.submit(data, data) for _ in range(10)]
    del data
    gc.collect()
    assert [each.result() for each in pickled] == [100000] * 10
    assert [each.result() for each in typed] == [100000] * 10


def test_memory_comes_back_when_nothing_refers_to_the_data(lease):
    large = numpy.zeros(200 << 17)
    with pytest.raises(invoker.ResourceExhausted, match="cannot put 524288008 bytes into executor 0"):
        lease.put(numpy.zeros(500 << 17))
    for _ in range(4):
        data = lease.put(large)
        with pytest.raises(invoker.ResourceExhausted):
            lease.put(large)
        del data
    with pytest.raises(invoker.DeadlineExceeded):
        lease.put(large, timeout=1e-6)
    lease.put(large).free()


def test_a_reference_that_is_wrong_is_refused_and_the_lease_goes_on(lease):
    dot = lease.typed("dot")
    ones = numpy.ones(3)
    data = lease.put(ones)
    with pytest.raises(TypeError, match=r"argument 1 of dot.*expected f64\[:\], got a reference to f32\[:\]"):
        dot(lease.put(numpy.ones(3, "f4")), ones)
    freed = lease.put(ones)
    freed.free()
    freed.free()
    assert freed.freed and "freed" in repr(freed)
    with pytest.raises(ValueError, match="argument 2 of dot.*the reference has been freed"):
        dot(ones, freed)

    @lease.function
    def total(array):
        return array.sum()

    with pytest.raises(ValueError, match="the reference has been freed"):
        total(freed)
    with pytest.raises(TypeError, match=r"argument 1 of scale"):
        lease.typed("scale")(data, 1.0)
    for bad in (numpy.float64(3), "text", [1.0], numpy.array(["x"]), numpy.zeros(3, ">f8"), numpy.zeros(2, object)):
        with pytest.raises(TypeError):
            lease.put(bad)
    assert dot(data, ones) == 3 and total(data) == 3


def test_a_reference_of_another_lease_is_refused_there(worker, lease):
    with invoker.connect(worker.address) as client, client.lease() as other:

        @other.function
        def total(array):
            return array.sum()

        data = lease.put(numpy.ones(10))
        with pytest.raises(invoker.FunctionFailed, match="argument 1: its reference is to no data of this executor"):
            other.typed("dot")(data, numpy.ones(10))
        with pytest.raises(invoker.FunctionFailed, match="it has been freed, or is of another lease"):
            total(data)
        assert total(other.put(numpy.ones(10))) == 10
    # Nothing is found outside of a function of an executor, and the data outlives no lease.
    with pytest.raises(LookupError, match="the reference is to no data"):
        pickle.loads(pickle.dumps(data))
    late = other
    with pytest.raises(invoker.FailedPrecondition):
        late.put(b"more")


def test_references_go_with_the_lease_the_interpreter_and_a_fork(worker):
    run_script(
        """
        import numpy
        with invoker.connect(ADDRESS) as client:
            with client.lease(executors=1) as lease:
                data = lease.put(numpy.ones(1000))
                second = lease.put(numpy.ones(1000))
                child = os.fork()
                if child == 0:
                    data.free()
                    del second
                    os._exit(0)
                assert os.waitpid(child, 0)[1] == 0
                assert lease.typed("dot")(data, second) == 1000
        del second
        data.free()
        third = client = None
        """,
        worker.address,
    )
