"""Blocking calls: every kind of buffer in and out, every size."""

import array
import ctypes
import gc
import mmap
import random
import struct
import sys
import threading
import tracemalloc

import invoker
import numpy
import pytest


def test_lists_the_workers_functions(client, server):
    assert client.functions() == server.ready["functions"]
    assert {"echo", "thumbnail", "matmul", "test.sleep"} <= set(client.functions())


def test_tells_what_the_session_uses(client, server):
    assert client.provider == server.ready["provider"]
    assert client.notification in ("write_imm", "send_after_write")
    assert client.downgrade_reason == ""
    assert client.fabric_choice.startswith(client.provider + ": ")
    assert client.max_payload == server.ready["window"] - 32
    assert client.provider in repr(client)


@pytest.mark.parametrize("given", [{}, {"provider": "auto"}, {"provider": None}])
def test_takes_the_best_fabric(server_of_all, given):
    with invoker.connect(server_of_all.address, **given) as client:
        assert client.provider == "shm"
        assert "same host" in client.fabric_choice
        assert client.call("echo", b"hello") == b"hello"


def test_takes_the_fabric_that_is_named(server_of_all):
    with invoker.connect(server_of_all.address, provider="tcp;ofi_rxm") as client:
        assert client.provider == "tcp;ofi_rxm"
        assert "asked for" in client.fabric_choice
        assert client.call("echo", b"hello") == b"hello"


@pytest.mark.parametrize("data_auth", ["off", "header", "full"])
def test_calls_with_tags(server, data_auth):
    with invoker.connect(server.address, data_auth=data_auth) as client:
        assert client.data_auth == data_auth
        for size in (0, 1, 1000, 100_000):
            payload = bytes(range(256)) * (size // 256 + 1)
            assert client.call("test.echo", payload[:size]) == payload[:size]
        dropped = client.dropped_responses()
        assert "bad_tag" in dropped and not any(dropped.values())


@pytest.mark.parametrize("notify", ["auto", "write_imm", "send_after_write"])
def test_calls_with_either_notification(client, server, notify):
    if notify == "write_imm" and client.notification != notify:
        pytest.skip("this fabric has no write-with-immediate with this libfabric")
    with invoker.connect(server.address, notify=notify) as client:
        assert notify in ("auto", client.notification)
        assert client.call("echo", b"hello") == b"hello"


def test_connects_with_every_option(server):
    with invoker.connect(
        server.address,
        provider=server.ready["provider"],
        window=4096,
        connect_timeout=60,
        hot_timeout=float("inf"),
    ) as client:
        assert client.max_payload == 4096 - 32
        assert client.call("echo", bytes(4064)) == bytes(4064)


@pytest.mark.parametrize(
    "data",
    [
        b"bytes",
        bytearray(b"bytearray"),
        memoryview(b"memoryview"),
        memoryview(b"0123456789")[2:7],
        array.array("d", [1.5, 2.5]),
        (ctypes.c_int32 * 3)(1, 2, 3),
        mmap.mmap(-1, 4096),
        numpy.arange(10),
        numpy.arange(12, dtype=">f4").reshape(3, 4),
        numpy.array([True, False]),
        numpy.array([1 + 2j, 3]),
        numpy.array(["2026-01-01"], dtype="datetime64[D]"),
        numpy.array([(1, 2.5)], dtype=[("Odd", "i4"), ("f", "f8")]),
        numpy.float64(2.5),
        numpy.array(7.5),
        numpy.array([b"abc", b"d"]),
    ],
    ids=lambda data: type(data).__name__,
)
def test_takes_every_kind_of_buffer(client, data):
    expected = data.tobytes() if hasattr(data, "tobytes") else bytes(data)
    result = client.call("echo", data)
    assert bytes(result) == expected


@pytest.mark.parametrize(
    "data",
    [
        memoryview(b"0123456789")[::2],
        memoryview(b"0123456789")[::-1],
        numpy.arange(20)[::3],
        numpy.arange(12).reshape(3, 4).T,
        numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3)),
        numpy.broadcast_to(numpy.int16(3), (4, 5)),
    ],
)
def test_copies_what_is_not_contiguous_in_c_order(client, data):
    assert bytes(client.call("echo", data)) == data.tobytes()


@pytest.mark.parametrize("data", [b"", bytearray(), numpy.empty(0), numpy.empty((3, 0), "M8[s]")])
def test_empty_input_gives_an_empty_answer(client, data):
    result = client.call("echo", data)
    assert len(result) == 0 and result == b""
    assert client.call("echo") == b""


@pytest.mark.parametrize(
    "data", ["text", 3, None, object(), [1, 2], numpy.array([object()]), numpy.array([None, 1])]
)
def test_refuses_what_is_not_bytes(client, data):
    with pytest.raises(TypeError):
        client.call("echo", data)
    with pytest.raises(TypeError):
        client.submit("echo", data)


def test_tells_users_of_text_to_encode_it(client):
    with pytest.raises(TypeError, match="encode"):
        client.call("echo", "text")


def test_random_sizes_up_to_the_maximum_come_back_unchanged(client):
    chance = random.Random(4)
    most = client.max_payload
    sizes = [0, 1, 31, 32, 33, 63, 64, 65, 4064, 65536, most - 1, most]
    sizes += [int(most ** chance.random()) for _ in range(150)]
    for size in sizes:
        data = chance.randbytes(size)
        assert client.call("echo", data) == data


def test_generated_responses_are_what_the_function_computes(client):
    def splitmix64(state):
        while True:
            state = (state + 0x9E3779B97F4A7C15) % 2**64
            z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
            z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
            yield z ^ (z >> 31)

    values = splitmix64(11)
    expected = numpy.array([next(values) for _ in range(1000)], dtype="<u8")
    request = struct.pack("<QQ", 8000, 11)
    result = client.call("test.fill", request, dtype="<u8", response_capacity=8000)
    assert numpy.array_equal(result, expected)


def test_results_are_fresh_writable_memory_that_can_be_hoarded(client):
    size = client.max_payload // 4
    hoard = [client.call("echo", bytes([i]) * size) for i in range(40)]
    for i, view in enumerate(hoard):
        assert isinstance(view, memoryview) and not view.readonly and view.format == "B"
        assert view == bytes([i]) * size
        view[0] = 255
    client.close()
    assert hoard[7][0] == 255 and hoard[7][-1] == 7


def test_dtype_gives_an_array(client):
    sent = numpy.random.default_rng(1).random((7, 3))
    result = client.call("echo", sent, dtype=numpy.float64)
    assert result.shape == (21,) and result.flags.writeable
    assert numpy.array_equal(result, sent.ravel())
    assert client.call("echo", b"", dtype="i4").shape == (0,)


def test_dtype_that_does_not_fit_is_an_error(client):
    with pytest.raises(invoker.InvalidArgument, match="10 bytes.*float64") as caught:
        client.call("echo", bytes(10), dtype=float)
    assert caught.value.fate == "executed"
    with pytest.raises(TypeError):
        client.call("echo", bytes(8), dtype=object)


@pytest.mark.parametrize(
    "out",
    [
        bytearray(100),
        memoryview(bytearray(100)),
        array.array("i", [0] * 25),
        numpy.zeros(25, dtype="i4"),
        numpy.zeros((5, 5), dtype=">i4"),
    ],
    ids=lambda out: type(out).__name__,
)
def test_out_takes_the_response(client, out):
    data = bytes(range(60))
    for how in (client.call, lambda *a, **o: client.submit(*a, **o).result()):
        result = how("echo", data, out=out)
        assert isinstance(result, memoryview) and result == data
        assert memoryview(out).tobytes() == data + bytes(40)
        result[0] = 77
        assert memoryview(out).tobytes()[0] == 77


def test_out_and_dtype_together_give_an_array_over_out(client):
    out = numpy.zeros(10)
    result = client.call("echo", numpy.arange(4.0), out=out, dtype=float)
    assert numpy.array_equal(result, [0, 1, 2, 3]) and numpy.shares_memory(result, out)


def test_out_makes_room_for_its_own_size(client):
    size = client.max_payload
    out = bytearray(size)
    request = struct.pack("<QQ", size, 5)
    assert len(client.call("test.fill", request, out=out)) == size
    assert len(client.submit("test.fill", request, out=out).result()) == size


@pytest.mark.parametrize("how", ["call", "submit"])
def test_out_too_small_says_both_sizes_and_stays_unchanged(client, how):
    def run(*arguments, **options):
        result = getattr(client, how)(*arguments, **options)
        return result if how == "call" else result.result()

    out = bytearray(10)
    with pytest.raises(invoker.ResourceExhausted, match="(?s)11.*10") as caught:
        run("echo", b"x" * 11, out=out)
    assert caught.value.fate == "executed" and out == bytes(10)
    assert run("echo", b"", out=bytearray()) == b""


@pytest.mark.parametrize("out", [b"readonly", numpy.zeros(8)[::2], 3, numpy.array([None])])
def test_out_must_be_writable_and_contiguous(client, out):
    with pytest.raises(TypeError, match="out="):
        client.call("echo", b"", out=out)
    with pytest.raises(TypeError, match="out="):
        client.submit("echo", b"", out=out)


def test_payloads_larger_than_the_window_are_read_and_written_where_they_are(server):
    with invoker.connect(server.address, window=1 << 16) as client:
        data = numpy.random.default_rng(3).integers(0, 256, 5_000_000, "u1")
        result = client.call("echo", data, dtype="u1")
        assert numpy.array_equal(result, data) and result.flags.writeable
        out = numpy.zeros(data.size + 10, "u1")
        view = client.call("echo", data, out=out)
        assert len(view) == data.size and numpy.shares_memory(numpy.frombuffer(view, "u1"), out)
        assert numpy.array_equal(out[:-10], data) and not out[-10:].any()
        # A short request with a long answer, and the other way round.
        out = bytearray(1_000_000)
        assert len(client.call("test.fill", struct.pack("<QQ", len(out), 5), out=out)) == len(out)
        with pytest.raises(invoker.ResourceExhausted):
            client.call("echo", data, response_capacity=100)
        with pytest.raises(invoker.ResourceExhausted, match="5000000"):
            client.call("echo", data, out=bytearray(data.size - 1))
        with pytest.raises(invoker.FunctionFailed):
            client.call("test.fail", data)
        assert client.call("echo", b"still there") == b"still there"


def test_response_capacity_decides_what_fits(client):
    assert len(client.call("test.twice", b"x" * 50, response_capacity=100)) == 100
    with pytest.raises(invoker.ResourceExhausted, match="100") as caught:
        client.call("test.twice", b"x" * 50, response_capacity=99)
    assert caught.value.fate == "executed"
    for wrong in (0, -1, client.max_payload + 1, 2**40):
        with pytest.raises(invoker.InvalidArgument, match="response_capacity"):
            client.call("echo", b"", response_capacity=wrong)


def test_function_handles_do_the_same(client):
    echo = client.function("echo")
    assert echo.name == "echo" and "echo" in repr(echo)
    assert echo(b"abc") == b"abc"
    assert echo.submit(b"abc").result() == b"abc"
    assert echo(numpy.arange(3), dtype=int).tolist() == [0, 1, 2]


def test_function_handles_take_the_same_arguments(client):
    echo = client.function("echo")
    out = bytearray(8)
    assert echo(data=b"abc", out=out, timeout=60, response_capacity=3, dtype=None) == b"abc"
    assert out == b"abc" + bytes(5)
    keyword = "".join(["o", "ut"])  # not the same object as the interned name
    assert echo(b"xyz", **{keyword: out}) == b"xyz" and out[:3] == b"xyz"
    assert echo() == b"" and echo(b"x", timeout=None, response_capacity=None, out=None) == b"x"
    assert numpy.array_equal(echo(numpy.arange(3.0), out=numpy.zeros(4), dtype=float), [0, 1, 2])
    for wrong in (
        lambda: echo(b"a", b"b"),
        lambda: echo(b"a", data=b"b"),
        lambda: echo(b"a", unknown=1),
        lambda: echo(b"a", response_capacity=1.5),
        lambda: echo(b"a", timeout="soon"),
        lambda: echo(None),
        lambda: type(echo)(client._calls, "echo"),
    ):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(invoker.InvalidArgument, match="response_capacity"):
        echo(b"a", response_capacity=2**80)


def test_a_function_handle_keeps_its_client(server):
    echo = invoker.connect(server.address).function("echo")
    gc.collect()
    assert echo(b"abc") == b"abc"
    echo._calls.close()
    with pytest.raises(invoker.FailedPrecondition):
        echo(b"abc")


def test_ping_returns_seconds(client):
    for size in (0, 1, 4096, client.max_payload):
        assert client.ping(size) > 0
    for wrong in (-1, client.max_payload + 1):
        with pytest.raises(invoker.InvalidArgument, match="size="):
            client.ping(wrong)


def test_many_threads_share_a_client(client):
    failures = []

    def work(seed):
        chance = random.Random(seed)
        for _ in range(100):
            data = chance.randbytes(chance.randrange(20000))
            if client.call("echo", data) != data:
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_threads_wait_for_room_when_each_call_fills_the_windows(client):
    data = bytes(client.max_payload)
    results = []
    threads = [
        threading.Thread(target=lambda: results.extend(len(client.call("echo", data)) for _ in range(10)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [client.max_payload] * 40


def test_other_threads_run_while_a_call_waits(client):
    waits = threading.Event()
    counted = []

    def count():
        while not waits.is_set():
            counted.append(None)
            waits.wait(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    before = len(counted)
    client.call("test.sleep", (500_000).to_bytes(4, "little"))
    after = len(counted)
    waits.set()
    thread.join()
    assert after - before >= 5


def test_nothing_refers_to_the_data_after_a_call(client):
    data = bytearray(b"x" * 1000)
    out = bytearray(1000)
    before = sys.getrefcount(data), sys.getrefcount(out)
    for _ in range(100):
        client.call("echo", data)
        client.call("echo", data, out=out)
        client.submit("echo", data).result()
        with pytest.raises(invoker.FunctionFailed):
            client.call("test.fail", data)
    data.extend(b"a buffer that is exported cannot grow")
    out.extend(b"neither")
    gc.collect()
    assert (sys.getrefcount(data), sys.getrefcount(out)) == before


def test_calls_leak_nothing(client):
    def work():
        for i in range(300):
            client.call("echo", b"x" * 100)
            client.submit("echo", b"x" * 100).result()
            with pytest.raises(invoker.FunctionFailed):
                client.call("test.fail", b"no")
        gc.collect()

    sizes = []
    # From the beginning: what replaces memory that it does not know of looks like growth.
    tracemalloc.start()
    try:
        for _ in range(5):
            work()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    # One object leaked a call would add some 15 kB each time; caches only grow now and then.
    assert min(after - before for before, after in zip(sizes, sizes[1:])) < 10_000, sizes
