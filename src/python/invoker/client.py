"""Client: a session with a worker, and the functions of that worker."""

from __future__ import annotations

import asyncio
import functools
import weakref
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Callable, Dict, List, Optional, Type

from invoker import _buffers, _invoker
from invoker._dispatch import Dispatcher
from invoker.errors import InvalidArgument


def connect(
    server: str,
    *,
    provider: Optional[str] = "auto",
    fabric_address: Optional[str] = None,
    notify: str = "auto",
    window: Optional[int] = None,
    connect_timeout: float = 10.0,
    hot_timeout: float = 0.001,
) -> Client:
    """Opens a session with the worker at server, "HOST:PORT", and proves its data path.

    provider: the libfabric provider, one that the worker offers; "auto" or None: the best that both sides
        have, and the next if that does not work. Client.fabric_choice says which it was, and why.
    fabric_address: this side's IP address, interface or libfabric domain, for the fabrics that have it; None:
        the one that routes to the worker.
    notify: how a peer learns of a write: "write_imm", "send_after_write", or "auto": write_imm if a probe
        proves it.
    window: bytes per direction, a power of two and at most the worker's; None: the worker's.
    connect_timeout: seconds for each step of connecting.
    hot_timeout: seconds for which a waiting thread busy-polls before it sleeps. Longer: lower latency of
        slow functions, more CPU.

    Blocks without the GIL, for at most a few connect_timeout, and four seconds more for each fabric that does
    not work; Ctrl-C takes effect only after that. Raises an InvokerError that says which step failed:
    Unavailable if nobody answers there or no fabric works, FailedPrecondition if the two sides do not match,
    InvalidArgument for an option out of its range.
    """
    if window is not None and window <= 0:
        raise InvalidArgument("window=%d is not a power of two, in bytes" % window)
    native = _invoker.connect(
        server,
        provider or "",
        fabric_address or "",
        notify,
        window or 0,
        connect_timeout,
        hot_timeout,
    )
    return Client(native)


class Client:
    """A session with a worker, made by connect(). A context manager; close() ends it.

    Any thread may use it. A call sends its data before it returns; the data is not referred to afterwards.

    Arguments that calls have in common:

    name: the function's name, as functions() lists it. NotFound for any other.
    data: any bytes-like object: bytes, bytearray, memoryview, array, numpy array of any plain dtype and shape.
        A C-contiguous one is sent from where it is, another one is copied first, in C order. At most
        max_payload bytes. TypeError for a str: encode it first.
    timeout: seconds from the start of the call to its end, waiting for room in the windows included; then
        DeadlineExceeded. None: none.
    response_capacity: bytes of response to make room for; None: as many as data has, or out=, or 1/64 of
        the window, whichever is most. A longer response is ResourceExhausted, and the message says how much
        it needs.
    out: a writable C-contiguous buffer to copy the response into. The result is then its beginning. Too
        small for the response: ResourceExhausted with both sizes, out unchanged.
    dtype: a numpy dtype. The result is then a 1-D array of it.

    The result is a writable memoryview, or array, of fresh memory that belongs to the caller.

    Errors are those of invoker.errors. Each has .fate, which says whether the function ran.
    """

    def __init__(self, native: _invoker.NativeClient) -> None:
        """For connect()."""
        self._native = native
        self._dispatcher = Dispatcher(native)
        # They hold the native client only, so that a Client nobody refers to any more can go.
        self._bound: Dict[str, _invoker.BoundFunction] = {}
        # Also runs when the interpreter exits.
        self._finalizer = weakref.finalize(
            self, _close, native, self._dispatcher, self._bound
        )

    def call(
        self,
        name: str,
        data: Any = b"",
        *,
        timeout: Optional[float] = None,
        response_capacity: Optional[int] = None,
        out: Any = None,
        dtype: Any = None,
    ) -> Any:
        """Calls the function and waits for its result.

        Waits without the GIL. On the main thread signal handlers run meanwhile, so Ctrl-C ends the wait
        within about 0.1 s; the function runs on.
        """
        bound = self._bound.get(name) or self._bind(name)
        return bound.call(data, timeout, response_capacity, out, dtype)

    def submit(
        self,
        name: str,
        data: Any = b"",
        *,
        timeout: Optional[float] = None,
        response_capacity: Optional[int] = None,
        out: Any = None,
        dtype: Any = None,
    ) -> Future:
        """Starts a call and returns the future of its result.

        Blocks, without the GIL, only while the windows have no room. cancel() on the future has no effect:
        the call has started. Callbacks run on one thread of this client, one after the other, and may make
        calls. An InvokerError is in the future, but an unknown name or a closed client raises here.
        """
        future = self._start(
            self._handle(name), data, timeout, response_capacity, out, dtype, may_block=True
        )
        assert future is not None
        return future

    async def acall(
        self,
        name: str,
        data: Any = b"",
        *,
        timeout: Optional[float] = None,
        response_capacity: Optional[int] = None,
        out: Any = None,
        dtype: Any = None,
    ) -> Any:
        """Calls the function from asyncio. Never blocks the event loop.

        While the windows have no room, a thread of the loop's executor waits for it. Cancelling the task
        ends the wait, not the call.
        """
        return await self._acall(
            self._handle(name), data, timeout, response_capacity, out, dtype
        )

    def function(self, name: str) -> Function:
        """The function of that name, to call without looking it up each time."""
        return Function(self, self._handle(name))

    def functions(self) -> List[str]:
        """The names of the worker's functions."""
        return self._native.function_names()

    def ping(self, size: int = 0, *, timeout: Optional[float] = None) -> float:
        """A round trip of size bytes that runs no function. Returns its seconds."""
        return self._native.ping(size, timeout)

    def close(self) -> None:
        """Ends calls under way, on any thread, with Cancelled, and closes the session.

        Blocks for a round trip to the server. Closing again does nothing; other methods then raise
        FailedPrecondition.
        """
        self._finalizer()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        exception_type: Optional[Type[BaseException]],
        exception: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._native.closed:
            return "<invoker.Client closed>"
        if self._native.forked:
            return "<invoker.Client of another process>"
        return "<invoker.Client over %s, %s>" % (self.provider, self.notification)

    @property
    def provider(self) -> str:
        """The name of the libfabric provider."""
        return self._native.provider

    @property
    def fabric_choice(self) -> str:
        """The provider and why it was taken, for people."""
        return self._native.fabric_choice

    @property
    def notification(self) -> str:
        """"write_imm" or "send_after_write"."""
        return self._native.notification

    @property
    def downgrade_reason(self) -> str:
        """Empty, or why write_imm was given up for send_after_write."""
        return self._native.downgrade_reason

    @property
    def max_payload(self) -> int:
        """Largest payload of a request or a response, in bytes."""
        return self._native.max_payload

    def _bind(self, name: str) -> _invoker.BoundFunction:
        bound = _invoker.BoundFunction(self._native, self._native.function(name))
        return self._bound.setdefault(name, bound)

    def _handle(self, name: str) -> _invoker.RemoteFunction:
        return (self._bound.get(name) or self._bind(name)).handle

    def _start(
        self,
        handle: _invoker.RemoteFunction,
        data: Any,
        timeout: Optional[float],
        response_capacity: Optional[int],
        out: Any,
        dtype: Any,
        may_block: bool,
    ) -> Optional[Future]:
        finish: Callable[[memoryview], Any] = _same
        if out is not None or dtype is not None:
            target = None if out is None else _buffers.byte_view(out)
            plain = None if dtype is None else _buffers.plain_dtype(dtype)
            finish = functools.partial(_finish, target, plain)
            most = self._native.max_payload
            if target is not None and response_capacity is None and len(target) > most // 64:
                response_capacity = min(len(target), most)
        return self._dispatcher.start(
            handle, data, timeout, response_capacity, finish, may_block
        )

    async def _acall(self, *arguments: Any) -> Any:
        future = self._start(*arguments, may_block=False)
        if future is None:
            wait = functools.partial(self._start, *arguments, may_block=True)
            future = await asyncio.get_running_loop().run_in_executor(None, wait)
        return await asyncio.wrap_future(future)


class Function(_invoker.BoundFunction):
    """A function of a worker, made by Client.function(). Calling it is Client.call() without a look-up.

    The arguments are those of Client's methods. Keeps its client alive, not open.
    """

    __slots__ = ("_client",)

    def __new__(cls, client: Client, handle: _invoker.RemoteFunction) -> Function:
        """For Client.function()."""
        function = super().__new__(cls, client._native, handle)
        function._client = client
        return function

    @property
    def name(self) -> str:
        """The function's name."""
        return self.handle.name

    def submit(
        self,
        data: Any = b"",
        *,
        timeout: Optional[float] = None,
        response_capacity: Optional[int] = None,
        out: Any = None,
        dtype: Any = None,
    ) -> Future:
        """As Client.submit()."""
        future = self._client._start(
            self.handle, data, timeout, response_capacity, out, dtype, may_block=True
        )
        assert future is not None
        return future

    async def acall(
        self,
        data: Any = b"",
        *,
        timeout: Optional[float] = None,
        response_capacity: Optional[int] = None,
        out: Any = None,
        dtype: Any = None,
    ) -> Any:
        """As Client.acall()."""
        return await self._client._acall(
            self.handle, data, timeout, response_capacity, out, dtype
        )

    def __repr__(self) -> str:
        return "<invoker.Function %s>" % self.name


def _same(view: memoryview) -> memoryview:
    return view


def _finish(target: Optional[memoryview], plain: Any, view: memoryview) -> Any:
    if target is not None:
        view = _buffers.copy_into(target, view)
    return view if plain is None else _buffers.as_array(view, plain)


def _close(
    native: _invoker.NativeClient,
    dispatcher: Dispatcher,
    bound: Dict[str, _invoker.BoundFunction],
) -> None:
    forked = native.forked
    native.close()
    # So that a name is looked up, and the lookup says that the client has been closed.
    bound.clear()
    # A forked process has no such thread.
    if not forked:
        dispatcher.stop()
