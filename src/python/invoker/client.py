"""Client: a session with a worker, and the functions of that worker."""

from __future__ import annotations

import functools
import weakref
from concurrent.futures import Future
from typing import Any, Callable, Dict, List, Optional, Union, overload

from invoker._calls import arguments, futures
from invoker._native import buffers, _invoker
from invoker._pickle import frames
from invoker._calls.calls import Calls
from invoker._calls.closing import Closing
from invoker._calls.dispatch import Dispatcher
from invoker._calls.frame_calls import FrameCalls
from invoker._calls.futures import CallFuture
from invoker._calls.leasing import Connecting, Leasing
from invoker.function import Function
from invoker.remote_function import RemoteFunction


class Client(Calls, Leasing, Closing):
    """A session with a worker, made by connect(). A context manager; close() ends it.

    Any thread may use it. A call sends its data before it returns; the data is not referred to afterwards.

    Arguments that calls have in common:

    name: the function's name, as functions() lists it. NotFound for any other.
    data: any bytes-like object: bytes, bytearray, memoryview, array, numpy array of any plain dtype and shape.
        A C-contiguous one is sent from where it is, another one is copied first, in C order. TypeError for
        a str: encode it first. With submit() and acall() at most max_payload bytes; call() takes any size,
        and registers what is larger for the executor to read it where it is.
    timeout: seconds from the start of the call to its end, waiting for room in the windows included; then
        DeadlineExceeded. None: none.
    response_capacity: bytes of response to make room for; None: as many as data has, or out=, or 1/64 of
        the window, whichever is most. A longer response is ResourceExhausted, and the message says how much
        it needs.
    out: a writable C-contiguous buffer to copy the response into. The result is then its beginning. Too
        small for the response: ResourceExhausted with both sizes, out unchanged. call() takes one larger
        than max_payload, which the executor writes to.
    dtype: a numpy dtype. The result is then a 1-D array of it.
    retry: for calls of a Group only (there: how often to try again, on another executor, a call whose executor was
        lost). InvalidArgument here.

    The result is a writable memoryview, or array, of fresh memory that belongs to the caller.

    Errors are those of invoker.errors. Each has .fate, which says whether the function ran.
    """

    def __init__(
        self, native: _invoker.NativeClient, connecting: Optional[Connecting] = None
    ) -> None:
        """For connect() and Lease."""
        Leasing.__init__(self, connecting)
        self._native = native
        self._dispatcher = Dispatcher(native)
        self._frames = FrameCalls(native, self._dispatcher)
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
        retry: int = 0,
    ) -> Any:
        """Calls the function and waits for its result.

        Waits without the GIL. On the main thread signal handlers run meanwhile, so Ctrl-C ends the wait
        within about 0.1 s and cancels the call, as cancel() on the future of submit() does.
        """
        if retry:
            arguments.no_retry(retry)
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
        retry: int = 0,
    ) -> Future:
        """Starts a call and returns the future of its result.

        Blocks, without the GIL, only while the windows have no room. cancel() on the future ends the call
        for its caller at once: the worker is told, and does not begin with it if it has not yet; a function
        that runs already may ask (invoker.cancelled()). Callbacks run on one thread of this client, one after the other, and may make
        calls. An InvokerError is in the future, but an unknown name or a closed client raises here.
        """
        if retry:
            arguments.no_retry(retry)
        future = self._submit(
            name,
            data,
            True,
            None,
            timeout=timeout,
            response_capacity=response_capacity,
            out=out,
            dtype=dtype,
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
        retry: int = 0,
    ) -> Any:
        """Calls the function from asyncio. Never blocks the event loop.

        While the windows have no room, a thread of the loop's executor waits for it. Cancelling the task
        cancels the call, as cancel() on the future of submit() does.
        """
        if retry:
            arguments.no_retry(retry)
        return await self._acall(
            self._handle(name), data, timeout, response_capacity, out, dtype
        )

    @overload
    def function(self, function: str) -> Function: ...

    @overload
    def function(self, function: Callable[..., Any]) -> RemoteFunction: ...

    def function(
        self, function: Union[str, Callable[..., Any]]
    ) -> Union[Function, RemoteFunction]:
        """The worker's function of that name, to call without looking it up each time.

        With a Python function rather than a name, also as a decorator, the same as register().
        """
        if callable(function):
            return self.register(function)
        return Function(self, self._handle(function))

    def functions(self) -> List[str]:
        """The names of the worker's functions."""
        return self._native.function_names()

    def ping(self, size: int = 0, *, timeout: Optional[float] = None) -> float:
        """A round trip of size bytes that runs no function. Returns its seconds."""
        arguments.check_call(timeout, None)
        return self._native.ping(arguments.whole("size", size, least=0), timeout)

    def close(self) -> None:
        """Ends calls under way, on any thread, with Cancelled, and closes the session.

        Blocks for a round trip to the server. Closing again does nothing; other methods then raise
        FailedPrecondition. Ends the lease that register() has taken; those of lease() stay.
        """
        self._close_own_lease()
        self._finalizer()

    def _end_calls(self) -> None:
        """For Group: what close() does first. Waits for no callback of a future."""
        self._native.close()

    def _let_go(self) -> None:
        """For Group: as close(), but callbacks of futures may still run, or come."""
        self._native.close()
        self._bound.clear()
        self._dispatcher.stop(wait=False)

    def _watch(self, bell: _invoker.Bell) -> None:
        """For Group: the bell is rung once the worker, or its lease, has ended the session."""
        self._native.watch(bell)

    def _has_ended(self) -> bool:
        """For Group: whether that bell has been rung. Cheap."""
        return self._native.ended

    def _has_gone(self) -> bool:
        """For Group: whether it has been let go of, and no callback of a future runs any more."""
        return self._dispatcher.ended()

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
    def data_auth(self) -> str:
        """How much of each message is under a keyed tag: "off", "header" or "full"."""
        return self._native.data_auth

    def dropped_responses(self) -> Dict[str, int]:
        """How much came in that was no response to a call of this client's, by reason."""
        return self._native.dropped_responses()

    @property
    def downgrade_reason(self) -> str:
        """Empty, or why write_imm was given up for send_after_write."""
        return self._native.downgrade_reason

    @property
    def max_payload(self) -> int:
        """Largest payload of a request or a response that goes through the windows, in bytes."""
        return self._native.max_payload

    def _bind(self, name: str) -> _invoker.BoundFunction:
        name = arguments.text("a function's name", name)
        bound = _invoker.BoundFunction(self._native, self._native.function(name))
        return self._bound.setdefault(name, bound)

    def _handle(self, name: str) -> _invoker.RemoteFunction:
        return (self._bound.get(name) or self._bind(name)).handle

    def _submit(
        self,
        name: str,
        data: Any,
        may_block: bool,
        whole: Optional[CallFuture],
        *,
        timeout: Optional[float] = None,
        response_capacity: Optional[int] = None,
        out: Any = None,
        dtype: Any = None,
    ) -> Optional[Future]:
        """For Group, too: None if it would have to wait for room and may not. whole is the future of which it is one try."""
        return self._start(
            self._handle(name), data, timeout, response_capacity, out, dtype, may_block, whole
        )

    def _start(
        self,
        handle: _invoker.RemoteFunction,
        data: Any,
        timeout: Optional[float],
        response_capacity: Optional[int],
        out: Any,
        dtype: Any,
        may_block: bool,
        whole: Optional[CallFuture] = None,
    ) -> Optional[Future]:
        arguments.check_call(timeout, response_capacity)
        finish: Callable[[memoryview], Any] = _same
        if out is not None or dtype is not None:
            target = None if out is None else buffers.byte_view(out)
            plain = None if dtype is None else buffers.plain_dtype(dtype)
            finish = functools.partial(_finish, target, plain)
            most = self._native.max_payload
            if target is not None and response_capacity is None and len(target) > most // 64:
                response_capacity = min(len(target), most)
        native = self._native
        return self._dispatcher.start(
            lambda token: native.start(token, handle, data, timeout, response_capacity, may_block),
            finish,
            writes=out is not None,
            whole=whole,
        )

    async def _acall(self, *arguments: Any) -> Any:
        return await futures.result_of(functools.partial(self._start, *arguments))

    def _default_in_flight(self) -> int:
        return 2

    def _call_remote(
        self,
        name: str,
        args: tuple,
        kwargs: dict,
        timeout: Optional[float],
        response_capacity: Optional[int],
    ) -> Any:
        return self._frames.call(self._handle(name), args, kwargs, timeout, response_capacity)

    def _begin_remote(
        self,
        name: str,
        parts: frames.Parts,
        timeout: Optional[float],
        response_capacity: Optional[int],
        may_block: bool,
    ) -> Optional[Future]:
        handle = self._handle(name)
        return self._frames.start(handle, parts, timeout, response_capacity, may_block)


def _same(view: memoryview) -> memoryview:
    return view


def _finish(target: Optional[memoryview], plain: Any, view: memoryview) -> Any:
    if target is not None:
        view = buffers.copy_into(target, view)
    return view if plain is None else buffers.as_array(view, plain)


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
