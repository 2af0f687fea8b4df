"""What python_fuzz.cc runs: the package with arguments made from bytes.

A call may raise what it likes; what must not come is SystemError, which is the interpreter's word for a C function that
broke its rules, anything that is no Exception, a crash, or a hang. Addresses are loopback's or none.
"""

import array
import asyncio
import concurrent.futures
import contextlib
import math
import pathlib
import struct

import invoker
import numpy
from invoker import usage
from invoker._calls import arguments, leasing
from invoker._native import _invoker, buffers

_WAIT = 5.0  # nothing here takes long; a future that does not end in this time is a finding


class _Odd:
    """An object whose special methods do what they should not."""

    def __init__(self, how, value):
        self.how = how
        self.value = value

    def _act(self):
        if self.how == 0:
            raise ValueError("odd")
        if self.how == 1:
            return self.value
        if self.how == 2:
            raise KeyError
        return "odd"

    __index__ = __int__ = __float__ = __len__ = __hash__ = __bool__ = _act

    def __getattr__(self, name):
        if self.how == 3:
            raise RuntimeError(name)
        raise AttributeError(name)


class _Maker:
    """Objects from bytes. When these are used up, everything is 0."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def byte(self):
        self.at += 1
        return self.data[self.at - 1] if self.at <= len(self.data) else 0

    def take(self, count):
        part = self.data[self.at : self.at + count]
        self.at += count
        return part

    def pick(self, choices):
        return choices[self.byte() % len(choices)]

    def done(self):
        return self.at >= len(self.data)

    def integer(self):
        return self.pick(
            [0, 1, -1, self.byte(), self.byte() << 8, 2**31, -(2**31), 2**32, 2**62, 2**63, 2**64, -(2**63), 10**30]
        )

    def real(self):
        return self.pick([0.0, 0.001, 0.05, 1e-9, -1.0, math.inf, -math.inf, math.nan, 1e18, 1e308, 5])

    def text(self):
        plain = self.take(self.byte() % 24)
        return self.pick(
            [plain.decode("latin-1"), plain.decode("utf-8", "surrogateescape"), "echo", "object", "", "\0", "\ud800"]
        )

    def array(self):
        dtype = self.pick(["u1", "i4", ">i4", "f8", "c16", "?", "O", "S3", "U2", "M8[s]", [("a", "i2"), ("b", "f4")], "V5"])
        count = self.byte() % 40
        with contextlib.suppress(Exception):
            made = numpy.zeros(count, dtype)
            return self.pick([made, made[::2], made[::-1], made[:0], made.reshape(1, -1), made.reshape(-1, 1).T, made[0:1]])
        return numpy.zeros(())

    def buffer(self):
        raw = bytearray(self.take(self.byte() % 64))
        return self.pick(
            [
                bytes(raw),
                raw,
                memoryview(raw),
                memoryview(bytes(raw)),
                memoryview(raw)[::2],
                memoryview(raw)[::-1],
                memoryview(bytearray(64)).cast("Q"),
                memoryview(bytearray(64)).cast("B", (8, 8)),
                array.array("d", [1.0] * (len(raw) % 9)),
                bytearray(200),
                bytearray(70000),
            ]
        )

    def any(self, depth=0):
        kind = self.byte() % 16
        if kind < 3:
            return self.buffer()
        if kind < 5:
            return self.array()
        if kind == 5:
            return self.text()
        if kind == 6:
            return self.integer()
        if kind == 7:
            return self.real()
        if kind == 8:
            return _Odd(self.byte() % 5, self.integer())
        if kind == 9 and depth < 3:
            return [self.any(depth + 1) for _ in range(self.byte() % 4)]
        if kind == 10 and depth < 3:
            return {self.text(): self.any(depth + 1) for _ in range(self.byte() % 3)}
        if kind == 11:
            return tuple(self.text() for _ in range(self.byte() % 3))
        return self.pick([None, True, int, len, object(), range(3), numpy.float32(2), numpy.dtype("i4"), ..., 1j])

    def timeout(self):
        """Mostly one that ends soon."""
        return self.any() if self.byte() % 4 == 0 else 1.0

    def path(self):
        """A file that is not there, or cannot be one of credentials."""
        return self.pick([None, None, "", "/dev/null", "/", pathlib.Path("/nonexistent"), "\0", self.any()])

    def options(self):
        """Options for a call."""
        options = {"timeout": self.timeout()}
        which = self.byte()
        if which & 1:
            options["response_capacity"] = self.any()
        if which & 2:
            options["out"] = self.any()
        if which & 4:
            options["dtype"] = self.any()
        return options

    def tried_options(self):
        """Options for a call that may be tried again."""
        options = self.options()
        if self.byte() % 2:
            options["retry"] = self.pick([0, 1, 2, 2**62, self.any()])
        return options


def _fail(view):
    raise ValueError(len(view))


_FUNCTIONS = {
    "echo": bytes,
    "nothing": lambda view: None,
    "fail": _fail,
    "odd": lambda view: 5,
    "object": invoker.pickled(lambda *args, **kwargs: (args, kwargs)),
    "typed": invoker.typed("(f64[:], optional[str], list[i8]) -> (f64[:], optional[str], list[i8])")(lambda *values: values),
}
_SIGNATURES = [
    "() -> %s" % text
    for text in (
        "f64[:, :]", "{a: i16, b: f32[2]}[:]", "{a: i16, b: f32[2]}", "list[str]", "optional[(bool, i32, f16)]", "bytes", "c64",
        "list[list[u8[:]]]", "protobuf[a.B]", "(u64, c128)",
    )
]
_SERVER, _OTHER = (
    invoker.serve(_FUNCTIONS, provider="tcp;ofi_rxm", fabric_address="127.0.0.1", window=65536) for _ in range(2)
)
_CLIENT = invoker.connect(_SERVER.address, provider="tcp;ofi_rxm", fabric_address="127.0.0.1")
_GROUP = invoker.connect(_SERVER.address + "," + _OTHER.address, provider="tcp;ofi_rxm", fabric_address="127.0.0.1")
_NAMES = ["echo", "nothing", "fail", "odd", "object", "typed", "none"]
_ADDRESSES = [_SERVER.address, "127.0.0.1:1", "", ":", "127.0.0.1", "127.0.0.1:99999", "[::1]:1", "127.0.0.1:1\0", "\ud800", ","]
_ADDRESSES += [",".join([_SERVER.address] * 2), _SERVER.address + ",127.0.0.1:1"]
_LISTEN = ["127.0.0.1:0", "", ":", "127.0.0.1", "127.0.0.1:-1", "127.0.0.1:99999", "[::1", "\ud800", "\0"]


def _name(maker):
    return maker.any() if maker.byte() % 8 == 0 else maker.pick(_NAMES)


def _target(maker):
    return maker.pick([_CLIENT, _CLIENT, _GROUP])


def _call(maker):
    _target(maker).call(_name(maker), maker.any(), **maker.tried_options())


def _submit(maker):
    _target(maker).submit(_name(maker), maker.any(), **maker.tried_options()).result(_WAIT)


def _acall(maker):
    coroutine = _target(maker).acall(_name(maker), maker.any(), **maker.tried_options())
    asyncio.run(asyncio.wait_for(coroutine, _WAIT))


def _function(maker):
    function = _target(maker).function(_name(maker))
    function(maker.any(), **maker.options())


def _remote(maker):
    remote = _target(maker).remote(_name(maker), timeout=maker.timeout(), response_capacity=maker.any())
    remote(*[maker.any() for _ in range(maker.byte() % 3)])


def _object(maker):
    _CLIENT.remote("object", timeout=1.0)(maker.any(), key=maker.any())


def _typed(maker):
    typed = _target(maker).typed("typed", maker.pick([None, None, _FUNCTIONS["typed"].signature, maker.any()]))
    typed = typed.options(timeout=maker.timeout(), response_capacity=maker.any(), retry=maker.pick([0, maker.any()]))
    good = [numpy.ones(maker.byte()), maker.text(), [maker.byte() % 128]]
    arguments = good if maker.byte() % 2 else [maker.any() for _ in range(maker.byte() % 5)]
    call = maker.pick([typed, lambda *values: typed.submit(*values).result(_WAIT)])
    call(*arguments)


def _map(maker):
    inputs = [maker.any() for _ in range(maker.byte() % 4)]
    results = _target(maker).map(
        _name(maker),
        inputs if maker.byte() % 4 else maker.any(),
        ordered=maker.any(),
        max_in_flight=maker.pick([None, 1, 2, maker.any()]),
        timeout=1.0,
        retry=maker.pick([0, 0, 1, maker.any()]),
    )
    for _ in results:
        pass


def _ping(maker):
    _target(maker).ping(maker.any(), timeout=maker.timeout())


def _native(maker):
    # Without what belongs to the threads of the package: results that they wait for, and its end.
    native = _CLIENT._native
    attribute = getattr(native, maker.pick(["function", "ping", "call_frame", "call_frame", "function_names", "max_payload"]))
    if callable(attribute):
        first = native.function(maker.pick(_NAMES)) if maker.byte() % 4 else maker.any()
        attribute(first, *[maker.any() for _ in range(maker.byte() % 5)])


def _pieces(maker):
    piece = maker.pick(
        [
            lambda: buffers.contiguous(maker.any()),
            lambda: buffers.byte_view(maker.any()),
            lambda: buffers.plain_dtype(maker.any()),
            lambda: leasing.parse_bytes(maker.any()),
            lambda: leasing.limit_seconds("limit", maker.any()),
            lambda: arguments.whole("number", maker.any()),
            lambda: arguments.seconds_from("seconds", maker.any(), zero=False),
            lambda: _invoker.decode_frame(memoryview(maker.take(maker.byte()))),
            lambda: _invoker.Frame(maker.byte() % 4, maker.any()),
            lambda: _invoker.Signature(maker.text()),
            lambda: _invoker.Signature(maker.pick(_SIGNATURES)).decode_result(memoryview(maker.take(maker.byte()))),
            lambda: usage.Usage(*[maker.any() for _ in range(maker.byte() % 9)]),
        ]
    )
    piece()


_TERMS = ["hot_timeout", "ttl", "polling", "call_limit", "wait", "tenant", "python"]


def _lease(maker):
    _target(maker).lease(
        executors=maker.pick([1, 2, maker.any()]),
        memory=maker.pick([None, "1M", maker.any()]),
        **{maker.pick(_TERMS): maker.any() for _ in range(maker.byte() % 4)},
    )


_CREDENTIALS = [
    [],
    [],
    ["tls_ca"],
    ["tls_ca", "tls_cert", "tls_key"],
    ["tls_ca", "tls_server_name"],
    ["token_file"],
]


def _connect(maker):
    if maker.byte() % 8:
        return
    credentials = {name: maker.path() for name in maker.pick(_CREDENTIALS)}
    # A client that speaks of certificates to a server without one gets no answer.
    timeouts = [0.05, 0.2] if credentials else [0.05, 0.2, -1, maker.any() if maker.byte() % 4 == 0 else 0.1]
    invoker.connect(
        maker.pick(_ADDRESSES) if maker.byte() % 4 else maker.pick([None, 5, b"127.0.0.1:1"]),
        provider=maker.pick(["tcp;ofi_rxm", "none", "", "\0", 5]),
        fabric_address=maker.pick(["127.0.0.1", "none", "\0", 5]),
        notify=maker.pick(["auto", "write_imm", "send_after_write", maker.any()]),
        data_auth=maker.pick(["off", "header", "full", maker.any()]),
        window=maker.pick([None, 4096, maker.any()]),
        peer_timeout=maker.pick([1.0, 0.02, math.inf, 1e-9, maker.any()]),
        reconnect=maker.pick([None, True, False, maker.any()]),
        plaintext=maker.any(),
        connect_timeout=maker.pick(timeouts),
        **credentials,
    ).close()


def _serve(maker):
    if maker.byte() % 16:
        return
    functions = {maker.text(): maker.pick([bytes, len, None, 5]) for _ in range(maker.byte() % 3)}
    invoker.serve(
        functions if maker.byte() % 8 else maker.any(),
        listen=maker.pick(_LISTEN),
        provider=maker.pick(["tcp;ofi_rxm", "none", "\0", 5]),
        fabric_address="127.0.0.1",
        notify=maker.pick(["auto", maker.any()]),
        window=maker.any(),
        executors=maker.pick([1, 0, -1, maker.any() if maker.byte() % 2 else 1, 2**70]),
    ).close()


_STEPS = [
    *[_call, _call, _submit, _acall, _function, _remote, _object, _typed, _typed, _map, _ping],
    *[_native, _pieces, _pieces, _lease, _connect, _serve],
]


def run(data):
    """Calls with what `data` says; raises only what must not come."""
    maker = _Maker(data)
    for _ in range(8):
        if maker.done():
            break
        step = maker.pick(_STEPS)
        try:
            step(maker)
        except SystemError:
            raise
        except concurrent.futures.TimeoutError as error:
            # A future's; a call that was given no time has ended with an error of the package's own.
            if not isinstance(error, invoker.InvokerError):
                raise SystemError("a call has not ended") from error
        except (Exception, struct.error):
            pass
