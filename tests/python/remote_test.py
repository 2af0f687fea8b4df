"""Functions of Python objects: invoker.pickled and Client.remote, and what becomes of arrays, exceptions and long answers."""

import asyncio
import gc
import pickle
import struct
import threading
import weakref

import invoker
import numpy
import pytest
from conftest import PROVIDERS, Serving, run_script
from invoker._native import _invoker
from invoker._pickle import frames


@pytest.fixture(scope="module", params=PROVIDERS)
def serving(request):
    running = Serving(request.param)
    yield running
    running.stop()


@pytest.fixture
def client(serving):
    with invoker.connect(serving.address) as opened:
        yield opened


def test_takes_and_returns_python_objects(client):
    same = client.remote("same")
    value = ((1, "two", None, {"three": [4.5, b"six"]}), {"key": {7, 8}})
    assert same(*value[0], **value[1]) == value
    assert client.remote("add")(2, b=3, scale=10) == 50
    assert same() == ((), {})
    assert "add" in repr(client.remote("add"))


@pytest.mark.parametrize(
    "array",
    [
        numpy.arange(10.0),
        numpy.arange(24, dtype=">i2").reshape(2, 3, 4),
        numpy.asfortranarray(numpy.arange(6).reshape(2, 3)),
        numpy.arange(20)[::3],
        numpy.zeros((0, 5)),
        numpy.array(7.5),
        numpy.array([("a", 1)], dtype=[("name", "U3"), ("n", "i4")]),
        numpy.array(["2026-01-01"], dtype="M8[D]"),
        numpy.array([1, None], dtype=object),
    ],
    ids=lambda array: "%s-%s" % (array.dtype.name, array.shape),
)
def test_arrays_keep_dtype_shape_and_order(client, array):
    result = client.remote("identity")(array)
    assert (result.dtype, result.shape) == (array.dtype, array.shape)
    assert numpy.array_equal(result, array)
    if array.flags.c_contiguous or array.flags.f_contiguous:
        assert result.flags.f_contiguous == array.flags.f_contiguous


def test_an_argument_is_a_read_only_view_of_the_window(client):
    for _ in range(3):
        seen = client.remote("facts")(numpy.arange(1000.0))
        assert seen["memory"] == "CallMemory" and not seen["writeable"]
        # The frame begins 32 bytes behind a cell's beginning.
        assert seen["address"] % 32 == 0


def test_arrays_of_a_result_are_views_of_one_memory(client):
    one, two = client.remote("twice")(numpy.arange(100.0))
    memories = []
    for array in (one, two):
        base = array
        while isinstance(base, numpy.ndarray):
            base = base.base
        memories.append(base.obj)
    assert memories[0] is memories[1] and type(memories[0]).__name__ == "Memory"
    assert one.flags.writeable
    one[0] = 77
    assert two[0] == 0 and two[99] == 198
    del two, memories, base, array
    gc.collect()
    assert one[0] == 77 and one[99] == 99


def test_results_outlive_the_client(serving):
    with invoker.connect(serving.address) as client:
        results = [client.remote("identity")(numpy.full(1000, i)) for i in range(50)]
    gc.collect()
    assert [int(result.sum()) for result in results] == [1000 * i for i in range(50)]


def test_a_function_that_keeps_an_argument_has_failed(client):
    with pytest.raises(invoker.FunctionFailed, match="must copy what it keeps"):
        client.remote("keep")(numpy.arange(10))
    client.remote("forget")()
    client.remote("keep")("no memory of the request")
    client.remote("forget")()


def test_an_exception_is_raised_here_with_its_remote_traceback(client):
    with pytest.raises(KeyError) as caught:
        client.remote("fail")("key")
    assert caught.value.args == ("key",)
    cause = caught.value.__cause__
    assert isinstance(cause, invoker.RemoteTraceback)
    assert "in fail\n" in str(cause) and "remote_functions.py" in str(cause) and "KeyError: 'key'" in cause.text
    with pytest.raises(TypeError, match="unexpected keyword"):
        client.remote("add")(1, wrong=2)
    future = client.remote("fail").submit("key")
    assert isinstance(future.exception(), KeyError)
    assert isinstance(future.exception().__cause__, invoker.RemoteTraceback)


@pytest.mark.parametrize(
    "kind, name", [("again", "NotAgain"), ("holds", "Holds"), ("stop", "StopIteration"), ("exit", "SystemExit"),
                   ("ctrl-c", "KeyboardInterrupt")]
)
def test_an_exception_that_cannot_travel_is_a_remote_error(client, kind, name):
    with pytest.raises(invoker.RemoteError, match=name) as caught:
        client.remote("fail")(kind)
    error = caught.value
    assert error.type_name.rpartition(".")[2] == name and error.fate == "executed"
    assert "in fail\n" in str(error.__cause__)
    assert client.remote("add")(1) == 1


@pytest.mark.parametrize("name", ["generate", "lock"])
def test_what_cannot_be_sent_back_is_a_type_error(client, name):
    with pytest.raises(TypeError, match="generator|pickle"):
        client.remote(name)()


def test_what_cannot_be_sent_is_refused_here(client):
    for how in (client.remote("identity"), client.remote("identity").submit):
        with pytest.raises(TypeError, match="pickle"):
            how(threading.Lock())


def test_lambdas_and_classes_of_the_program_go_by_value(serving):
    run_script(
        """
        import dataclasses
        @dataclasses.dataclass
        class Point:
            x: int
        with invoker.connect(ADDRESS) as client:
            identity = client.remote("identity")
            back = identity(Point(3))
            assert back == Point(3) and type(back) is Point
            assert identity(lambda x: x + 1)(1) == 2
        """,
        serving.address,
    )


@pytest.mark.parametrize("bytes_", [2_000, 200_000, 3_000_000])
@pytest.mark.parametrize("how", ["call", "submit", "acall"])
def test_long_answers_to_short_requests_come_whole(serving, bytes_, how):
    count = bytes_ // 8
    with invoker.connect(serving.address) as client:
        arange = client.remote("arange")
        pieces = []
        plain_fetch = client._calls.frames._fetch

        def fetch(function, deadline, session, ticket, size):
            pieces.append(size)
            return plain_fetch(function, deadline, session, ticket, size)

        client._calls.frames._fetch = fetch

        def run():
            if how == "call":
                return arange(count)
            return arange.submit(count).result() if how == "submit" else asyncio.run(arange.acall(count))

        for _ in range(2):
            result = run()
            assert numpy.array_equal(result, numpy.arange(count)) and result.flags.writeable
        # Where the window takes it, the first call has told how much room the next one needs.
        assert len(pieces) == (0 if bytes_ < client.max_payload // 64 else 1 if bytes_ < client.max_payload else 2)


def test_an_answer_that_nobody_keeps_any_more_is_an_error(client):
    frame = bytes(_invoker.Frame(frames.FETCH, (12345, 0, 100)))
    with pytest.raises(invoker.FunctionFailed, match="no longer kept"):
        client.call("add", frame)


def test_a_plain_function_is_no_function_of_objects(client):
    with pytest.raises(invoker.InvalidArgument, match=r"plain.*call\(\)"):
        client.remote("plain")()


def test_bytes_that_are_no_frame_have_the_call_fail(client):
    for data in (b"", b"x" * 24, b"INVP" + bytes(60), b"INVP\x01\x01" + b"\xff" * 200):
        with pytest.raises(invoker.FunctionFailed, match=r"ValueError: .*remote\(.*not by call\(\)"):
            client.call("add", data)


def test_deadlines_hold_for_remote_functions(client):
    with pytest.raises(TimeoutError):
        client.remote("sleep", timeout=0.05)(2)
    assert client.remote("sleep").options(timeout=60)(0) is False


def test_ctrl_c_ends_a_blocking_call(serving):
    run_script(
        """
        with invoker.connect(ADDRESS) as client:
            sleep = client.remote("sleep")
            sleep(0)
            timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
            try:
                timer.start()
                sleep(1.0)
            except KeyboardInterrupt:
                print("interrupted")
            else:
                sys.exit("not interrupted")
            timer.join()
            assert sleep(0) is False
        """,
        serving.address,
    )


def test_a_forked_process_is_told(serving):
    run_script(
        """
        client = invoker.connect(ADDRESS)
        sleep = client.remote("sleep")
        sleep.submit(0).result()
        child = os.fork()
        if child == 0:
            for use in (sleep, sleep.submit):
                try:
                    use(0)
                except invoker.FailedPrecondition as error:
                    assert "fork" in str(error), error
                else:
                    os._exit(7)
            os._exit(5)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == 5, status
        assert sleep(0) is False
        client.close()
        """,
        serving.address,
    )


def test_awaits(client):
    async def run():
        identity = client.remote("identity")
        results = await asyncio.gather(*(identity.acall(numpy.full(2000, i)) for i in range(40)))
        assert [int(result[0]) for result in results] == list(range(40))
        with pytest.raises(KeyError):
            await client.remote("fail").acall("key")

    asyncio.run(run())


def test_more_requests_than_the_window_holds(client):
    identity = client.remote("identity")
    arrays = [numpy.full(client.max_payload // 32, i) for i in range(30)]
    futures = [identity.submit(array) for array in arrays]
    for future, array in zip(futures, arrays):
        assert numpy.array_equal(future.result(), array)


@pytest.mark.parametrize("how", ["call", "submit", "acall"])
def test_arrays_larger_than_the_window(client, how):
    array = numpy.arange(500_000.0)
    assert array.nbytes > 10 * client.max_payload
    twice = client.remote("twice")
    if how == "call":
        same, double = twice(array)
    elif how == "submit":
        same, double = twice.submit(array).result()
    else:
        same, double = asyncio.run(twice.acall(array))
    assert numpy.array_equal(same, array) and numpy.array_equal(double, array * 2)
    with pytest.raises(TypeError):
        client.remote("add")(array, "no number")
    assert client.remote("add")(1) == 1


def test_maps_in_order_with_bounded_calls_under_way(client):
    asked = []

    def inputs():
        for i in range(100):
            asked.append(i)
            yield numpy.full(10, i)

    progress = []
    results = client.remote("identity").map(
        inputs(), max_in_flight=3, progress=lambda *state: progress.append(state)
    )
    assert asked == []
    assert next(results)[0] == 0 and len(asked) <= 3 * 5
    assert [int(result[0]) for result in results] == list(range(1, 100))
    assert progress == [(i, None) for i in range(1, 101)]


def test_maps_as_results_come(client):
    progress = []
    results = client.remote("add").map(range(50), ordered=False, progress=lambda *state: progress.append(state))
    assert sorted(results) == list(range(50))
    assert progress[-1] == (50, 50)
    assert list(client.remote("add").map([])) == []
    with pytest.raises(invoker.InvalidArgument):
        client.remote("add").map([1], max_in_flight=0)


def test_a_map_raises_where_a_call_failed(client):
    results = client.remote("add").map([1, 2, "three", 4])
    assert [next(results), next(results)] == [1, 2]
    with pytest.raises(TypeError):
        next(results)
    assert list(results) == []


def test_maps_functions_of_bytes(client):
    assert [bytes(result) for result in client.map("plain", [b"a", b"b", b"c"])] == [b"a", b"b", b"c"]


def test_a_client_with_calls_of_objects_goes_away(serving):
    client = invoker.connect(serving.address)
    client.remote("add").submit(1).result()
    gone = weakref.ref(client._calls)
    del client
    gc.collect()
    assert gone() is None


def test_pickled_is_still_the_function_here():
    @invoker.pickled
    def double(x):
        """Twice."""
        return 2 * x

    assert double(4) == 8 and double.__doc__ == "Twice."
    with pytest.raises(TypeError):
        invoker.pickled(3)


def test_frames_are_what_they_say():
    array = numpy.arange(5.0)
    made = _invoker.Frame(frames.CALL, ((array,), {}))
    # No copy on the way in.
    array[0] = 7
    frame = bytearray(bytes(made))
    assert frame[:6] == b"INVP\x01\x01"
    assert struct.unpack_from("<I", frame, 8) == (1,)
    pickle_bytes, array_bytes = struct.unpack_from("<QQ", frame, 16)
    assert array_bytes == 40 and len(frame) % 64 == 40
    assert bytes(frame[64 : 64 + pickle_bytes]).startswith(b"\x80\x05")
    (back,), _ = _invoker.decode_frame(memoryview(frame))[1]
    assert numpy.array_equal(back, array)
    # And none on the way out.
    assert numpy.shares_memory(back, numpy.frombuffer(frame, "u1"))


def test_frames_cut_anywhere_are_refused():
    frame = bytes(_invoker.Frame(frames.CALL, ((numpy.arange(5.0), b"x" * 100), {})))
    for size in range(len(frame)):
        with pytest.raises((ValueError, pickle.UnpicklingError)):
            _invoker.decode_frame(memoryview(frame)[:size])
