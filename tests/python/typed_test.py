"""Typed functions: values by a signature, in both languages."""

import asyncio
import gc
import os
import struct
import subprocess

import conftest
import invoker
import numpy
import pytest
from conftest import run_script

PARTICLE = numpy.dtype([("position", "f8", 3), ("mass", "f4"), ("id", "i4")], align=True)
# For servers in this very process; the fixture `worker` has shm, too.
PROVIDER = "tcp;ofi_rxm"
PARTICLE_TYPE = "{position: f64[3], mass: f32, id: i32}"


@invoker.typed("(f64[:, :], f64) -> f64[:, :]")
def scale(matrix, factor):
    """Each element times a number."""
    assert not matrix.flags.writeable
    return matrix * factor


def echo_of(signature):
    """Returns what it gets: one value as it is, several as a tuple."""
    return invoker.typed(signature)(lambda *values: values if len(values) > 1 else values[0])


@pytest.fixture
def echo():
    """Serves echo functions of signatures, and calls one."""
    opened = []

    def call(signature, *values):
        server = invoker.serve({"echo": echo_of(signature)}, provider=PROVIDER)
        opened.append(server)
        client = invoker.connect(server.address)
        opened.append(client)
        return client.typed("echo").options(response_capacity=100000)(*values)

    yield call
    for each in reversed(opened):
        each.close()


def test_a_function_in_cpp_is_called_with_arrays(worker):
    with invoker.connect(worker.address) as client:
        dot = client.typed("dot", "(f64[:], f64[:]) -> f64")
        scaled = client.typed("scale")
        assert scaled.signature == "(f64[:, :], f64) -> f64[:, :]"
        for size in (0, 3, 1000, 300000):
            ones = numpy.ones(size)
            assert dot(ones, 2 * ones) == 2 * size
            assert dot(ones, numpy.arange(2.0 * size)[::2]) == size * (size - 1)
        result = scaled(numpy.arange(6.0).reshape(2, 3), 10)
        assert result.dtype == "f8" and result.tolist() == [[0, 10, 20], [30, 40, 50]]
        assert result.flags.writeable and result.flags.aligned
        with pytest.raises(invoker.FunctionFailed, match="dot: the arrays differ in length"):
            dot(numpy.ones(2), numpy.ones(3))
        assert asyncio.run(dot.acall(numpy.ones(4), numpy.ones(4))) == 4
        assert dot.submit(numpy.ones(5), numpy.ones(5)).result() == 5
        pairs = [(numpy.full(3, float(i)), numpy.ones(3)) for i in range(50)]
        assert list(dot.map(*zip(*pairs))) == [3.0 * i for i in range(50)]


def test_python_serves_the_same_functions_to_cpp():
    with invoker.serve({"scale": scale}, provider=PROVIDER) as server:
        printed = subprocess.run(
            [os.path.abspath("tests/python/typed_caller"), server.address], capture_output=True, text=True, timeout=60
        )
        assert printed.stdout == "2 4 6 8\n", printed.stderr
        with invoker.connect(server.address) as client:
            assert client.typed("scale")(numpy.eye(2), 3).tolist() == [[3, 0], [0, 3]]
    eye = numpy.eye(1)
    eye.flags.writeable = False
    assert scale(eye, 2).tolist() == [[2]]


def test_every_type_travels(echo):
    particles = numpy.zeros(3, PARTICLE)
    particles["id"] = [1, 2, 3]
    signature = "(bool, i8, i16, i32, i64, u8, u16, u32, u64, f16, f32, f64, c64, c128, str, bytes)"
    values = (True, -5, -300, -70000, -(2**40), 250, 65000, 2**31, 2**63, 0.5, 0.25, 0.1, 1 + 2j, 0.1 - 2j, "größe", b"\0raw")
    assert echo("%s -> %s" % (signature, signature), *values) == values
    got = echo("(%s[:], f32[:, :, :], u8[:]) -> (%s[:], f32[:, :, :], u8[:])" % (PARTICLE_TYPE, PARTICLE_TYPE),
               particles, numpy.ones((2, 3, 4), "f4"), numpy.arange(9, dtype="u1"))
    assert got[0].dtype == PARTICLE and got[0]["id"].tolist() == [1, 2, 3]
    assert got[1].shape == (2, 3, 4) and got[2].tolist() == list(range(9))
    one = echo("(%s) -> %s" % (PARTICLE_TYPE, PARTICLE_TYPE), particles[1])
    assert one["id"] == 2
    assert echo("(list[str]) -> list[str]", ["a", "", "b"]) == ["a", "", "b"]
    assert echo("(list[f64[:]]) -> list[f64[:]]", [numpy.ones(2)] * 3)[2].tolist() == [1, 1]
    for value in (None, "x"):
        assert echo("(optional[str]) -> optional[str]", value) == value
    assert echo("((i32, (str, bool))) -> (i32, (str, bool))", (1, ("a", False))) == (1, ("a", False))
    assert echo("(f64[:]) -> f64[:]", [1.5, 2.5]).tolist() == [1.5, 2.5]


def test_messages_of_protobuf_travel(echo):
    from google.protobuf import wrappers_pb2

    signature = "(protobuf[google.protobuf.StringValue]) -> protobuf[google.protobuf.StringValue]"
    assert echo(signature, wrappers_pb2.StringValue(value="tea")).value == "tea"
    with pytest.raises(TypeError, match=r"expected protobuf\[google.protobuf.StringValue\], got a message of google.protobuf.Int32Value"):
        echo(signature, wrappers_pb2.Int32Value(value=1))


def cut_message():
    """A message that is like a StringValue, and gives half of its bytes."""
    from google.protobuf import wrappers_pb2

    class Cut:
        DESCRIPTOR = wrappers_pb2.StringValue.DESCRIPTOR

        def SerializeToString(self):
            whole = wrappers_pb2.StringValue(value="a cup of tea").SerializeToString()
            return whole[: len(whole) // 2]

    return Cut()


def test_a_message_that_is_cut_short_fails_the_call_and_the_error_says_which_argument_it_is():
    message = "protobuf[google.protobuf.StringValue]"
    ran = []
    functions = {
        "take": invoker.typed("(i64, %s) -> None" % message)(lambda number, text: ran.append(text.value)),
        "give": invoker.typed("() -> %s" % message)(cut_message),
        "later": invoker.typed("(i64, %s) -> None" % message)(take_later),
    }
    cut = cut_message().SerializeToString()
    on_the_wire = struct.pack("<qQ", 1, len(cut)) + cut + bytes(-len(cut) % 8)
    wrong = r"argument 2 of \(i64, .*StringValue.*cut short"
    with invoker.serve(functions, provider=PROVIDER) as server, invoker.connect(server.address) as client:
        for name in ("take", "later"):
            take = client.typed(name)
            ways = (
                lambda: take(1, cut_message()),
                take.submit(1, cut_message()).result,
                lambda: client.call(name, on_the_wire),
                # Here the frame of the value is cut, too.
                lambda: client.call(name, on_the_wire[:-8]),
            )
            for call in ways:
                with pytest.raises(invoker.FunctionFailed, match=wrong) as failed:
                    call()
                assert failed.value.fate == "executed" and "DecodeError" not in str(failed.value)
        assert not ran
        for call in (client.typed("give"), client.typed("give").submit().result):
            with pytest.raises(ValueError, match=r"no protobuf\[google.protobuf.StringValue\], or are cut short"):
                call()
        # The session goes on.
        from google.protobuf import wrappers_pb2

        client.typed("take")(1, wrappers_pb2.StringValue(value="tea"))
        assert ran == ["tea"]


async def take_later(number, text):
    raise AssertionError("it has run")


@pytest.mark.parametrize(
    "signature, value, error, message",
    [
        ("f64[:]", numpy.ones(2, "f4"), TypeError, r"argument 1 of echo.*expected f64\[:\], got an array of float32"),
        ("f64[:]", numpy.ones((2, 2)), TypeError, "with 2 dimensions"),
        ("f64[:]", numpy.ones(2, ">f8"), TypeError, "array of >f8"),
        ("f64[:]", 1.0, TypeError, r"expected f64\[:\], got float"),
        ("f64[:]", [1, 2], TypeError, "array of int64"),
        (PARTICLE_TYPE + "[:]", numpy.zeros(2, [("a", "f8")]), TypeError, "expected {position"),
        ("i8", 128, ValueError, "128 is out of the range of i8"),
        ("u64", -1, ValueError, "-1 is out of the range of u64"),
        ("i32", 1.5, TypeError, "expected i32, got float"),
        ("bool", 1, TypeError, "expected bool, got int"),
        ("str", b"raw", TypeError, "expected str, got bytes"),
        ("list[str]", "text", TypeError, r"expected list\[str\], got str"),
        ("(i32, i32)", (1,), TypeError, "got 1 values"),
        ("f64", "text", TypeError, "expected f64, got str"),
    ],
)
def test_an_argument_of_another_type_is_refused_before_anything_is_sent(signature, value, error, message):
    echo = echo_of("(%s) -> %s" % (signature, signature))
    with invoker.serve({"echo": echo}, provider=PROVIDER) as server, invoker.connect(server.address) as client:
        function = client.typed("echo")
        with pytest.raises(error, match=message):
            function(value)
        with pytest.raises(error, match=message):
            function.submit(value)
        with pytest.raises(TypeError, match="takes 1 arguments, but 2 were given"):
            function(value, value)
        with pytest.raises(TypeError, match="no keyword arguments"):
            function(value=value)
        assert server.calls == 0


def test_a_function_of_another_signature_is_refused_when_it_is_looked_up(worker):
    with invoker.connect(worker.address) as client:
        with pytest.raises(invoker.InvalidArgument, match=r'"dot" is \(f64\[:\], f64\[:\]\) -> f64, and .* for \(f32\[:\]\) -> f64'):
            client.typed("dot", "(f32[:]) -> f64")
        with pytest.raises(invoker.InvalidArgument, match="echo takes and returns bytes"):
            client.typed("echo")
        with pytest.raises(invoker.NotFound):
            client.typed("nothing")
        with pytest.raises(ValueError, match='expected a type, such as f64.* at character 2'):
            client.typed("dot", "(float) -> f64")


def test_bytes_that_are_no_arguments_fail_the_call_and_the_session_goes_on():
    with invoker.serve({"scale": scale}, provider=PROVIDER) as server, invoker.connect(server.address) as client:
        for data in (b"", b"\xff" * 8, b"\xff" * 16, b"\0" * 16, b"\0" * 32, os.urandom(100)):
            with pytest.raises(invoker.FunctionFailed, match=r"argument|bytes more than"):
                client.call("scale", data)
        assert client.typed("scale")(numpy.eye(1), 2).tolist() == [[2]]


def test_a_result_of_another_type_fails_the_call():
    bad = invoker.typed("() -> f64[:]")(lambda: numpy.ones(3, "f4"))
    none = invoker.typed("() -> None")(lambda: None)
    with invoker.serve({"bad": bad, "none": none}, provider=PROVIDER) as server:
        with invoker.connect(server.address) as client:
            with pytest.raises(invoker.FunctionFailed, match=r"the function's result: expected f64\[:\], got an array of float32"):
                client.typed("bad")()
            assert client.typed("none")() is None


def test_a_result_that_is_larger_than_the_arguments_needs_room():
    make = invoker.typed("(i64) -> f64[:]")(lambda size: numpy.arange(float(size)))
    with invoker.serve({"make": make}, provider=PROVIDER) as server, invoker.connect(server.address) as client:
        function = client.typed("make")
        assert function(10).tolist() == list(range(10))
        for size in (50_000, 1_000_000):
            with pytest.raises(invoker.ResourceExhausted, match=str(8 + 8 * size)):
                function(size)
            roomy = function.options(response_capacity=8 + 8 * size)
            assert roomy(size)[-1] == size - 1
            assert roomy.submit(size).result()[-1] == size - 1
        with pytest.raises(invoker.ResourceExhausted, match="more than the memory of this machine"):
            function.options(response_capacity=2**62)(10)


def test_a_function_that_keeps_its_array_fails():
    kept = []
    keep = invoker.typed("(f64[:]) -> None")(kept.append)
    with invoker.serve({"keep": keep}, provider=PROVIDER) as server, invoker.connect(server.address) as client:
        with pytest.raises(invoker.FunctionFailed, match="must copy what it keeps"):
            client.typed("keep")(numpy.ones(3))
        kept.clear()
        gc.collect()


def test_a_lease_runs_a_typed_function_that_was_shipped_to_it(worker):
    with invoker.connect(worker.address) as client:
        with client.lease(executors=2) as lease:
            there = lease.register(scale, name="scale-here")
            assert isinstance(there, invoker.TypedFunction)
            assert there(numpy.eye(2), 4).tolist() == [[4, 0], [0, 4]]
            assert lease.typed("scale-here").signature == scale.signature
            with pytest.raises(TypeError, match="expected f64, got str"):
                there(numpy.eye(2), "4")
        own = client.register(scale, name="scale-own")
        assert own(numpy.eye(1), 5).tolist() == [[5]]


def test_a_shipped_function_of_another_signature_is_refused_before_it_runs(worker, tmp_path):
    runs = str(tmp_path / "runs")

    @invoker.typed("(f64[:], i64) -> f64")
    def note(array, number):
        with open(runs, "a") as file:
            file.write("ran\n")
        return array.sum() * number

    right, wrong = "(f64[:], i64) -> f64", "(f32[:], i64) -> f64"
    both = r'"note-run" is \(f64\[:\], i64\) -> f64, and the caller takes it for \(f32\[:\], i64\) -> f64'
    with invoker.connect(worker.address) as client, client.lease() as lease:
        there = lease.register(note, name="note-run")
        for _ in range(2):
            with pytest.raises(invoker.InvalidArgument, match=both):
                lease.typed("note-run", wrong)
        # By another argument, too.
        with pytest.raises(TypeError, match=r"argument 1 of note-run.*expected f64\[:\], got an array of float32"):
            there(numpy.ones(3, "f4"), 2)
        assert lease.usage.calls == 0 and not os.path.exists(runs)
        assert lease.typed("note-run", right)(numpy.ones(3), 2) == 6
        with open(runs) as file:
            assert file.read() == "ran\n"
    assert lease.usage.calls == 1


def test_an_uploaded_function_of_another_signature_is_refused_before_it_runs(monkeypatch):
    library = "examples/functions/libexample_functions.so"
    # A server without the example functions.
    monkeypatch.setattr(conftest, "LIBRARIES", os.path.abspath("tests/functions/test_functions.so"))
    server = conftest.Server(PROVIDER, "--lease-cores=1", "--lease-memory=1G", "--allow-upload=all", conftest.OWN_USER)
    try:
        with invoker.connect(server.address) as client, client.lease() as lease:
            assert "dot" not in client.functions() and "dot" in lease.upload(library)
            both = r'"dot" is \(f64\[:\], f64\[:\]\) -> f64, and .* for \(f32\[:\]\) -> f64'
            with pytest.raises(invoker.InvalidArgument, match=both):
                lease.typed("dot", "(f32[:]) -> f64")
            with pytest.raises(invoker.InvalidArgument, match="takes and returns bytes"):
                lease.typed("test.echo", "(f32[:]) -> f64")
            assert lease.usage.calls == 0
            assert lease.typed("dot", "(f64[:], f64[:]) -> f64")(numpy.ones(3), numpy.ones(3)) == 3
        assert lease.usage.calls == 1
    finally:
        server.stop()


def test_a_group_calls_typed_functions(worker):
    with invoker.connect(worker.address) as client, client.lease(executors=2) as lease:
        dot = lease.typed("dot")
        ones = numpy.ones(100)
        assert list(dot.map([ones] * 10, [ones] * 10)) == [100.0] * 10


def test_a_function_learns_about_its_call():
    facts = invoker.typed("() -> (str, str, optional[f64])")(lambda: tuple(invoker.context()))
    with invoker.serve({"facts": facts}, provider=PROVIDER) as server, invoker.connect(server.address) as client:
        tenant, call_id, remaining = client.typed("facts")()
        assert tenant == "" and "-" in call_id and remaining is None
        _, other, remaining = client.typed("facts").options(timeout=30)()
        assert other != call_id and 0 < remaining <= 30
    with pytest.raises(invoker.FailedPrecondition):
        invoker.context()


def test_arrays_need_numpy_only_when_they_are_called():
    run_script(
        """
        sys.modules["numpy"] = None
        shout = invoker.typed("(str) -> str")(str.upper)
        with invoker.serve({"shout": shout}, provider="tcp;ofi_rxm") as server, invoker.connect(server.address) as client:
            assert client.typed("shout")("abc") == "ABC"
        try:
            invoker.typed("(f64[:]) -> None")
        except ImportError:
            pass
        else:
            raise AssertionError("numpy was found")
        """
    )
