"""Session: calls over one session with a worker."""

from __future__ import annotations

import functools
import weakref
from concurrent.futures import Future
from typing import Any, Callable, Dict, Optional

from invoker._calls import arguments, futures
from invoker._calls.caller import Caller, RemoteCall
from invoker._calls.connecting import Connecting
from invoker._calls.dispatch import Dispatcher
from invoker._calls.frame_calls import FrameCalls
from invoker._calls.futures import CallFuture
from invoker._native import _invoker, buffers
from invoker._pickle import frames
from invoker.errors import FailedPrecondition


class Session(Caller):
    """Calls over one session with a worker. It closes when nothing refers to it any more."""

    def __init__(self, native: _invoker.NativeClient, way: Optional[Connecting] = None) -> None:
        """way: None for an executor of a lease."""
        self.native = native
        self.way = way
        self.dispatcher = Dispatcher(native)
        self.frames = FrameCalls(native, self.dispatcher)
        # They refer to the native client only, so that they do not keep this session.
        self.bound: Dict[str, _invoker.BoundFunction] = {}
        # Also runs when the interpreter exits.
        self.close = weakref.finalize(self, _close, native, self.dispatcher, self.bound)

    def worker(self) -> Connecting:
        """The way to the worker; FailedPrecondition if this is an executor of a lease."""
        if self.way is None:
            raise FailedPrecondition("this is an executor of a lease: it leases nothing itself")
        return self.way

    def bind(self, name: str) -> _invoker.BoundFunction:
        """Looks a function up. `bound` has those that were looked up before."""
        name = arguments.text("a function's name", name)
        bound = _invoker.BoundFunction(self.native, self.native.function(name))
        return self.bound.setdefault(name, bound)

    def handle(self, name: str) -> _invoker.RemoteFunction:
        """The function of that name."""
        return (self.bound.get(name) or self.bind(name)).handle

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
        """Like Client.call()."""
        bound = self.bound.get(name) or self.bind(name)
        return bound.call(data, timeout, response_capacity, out, dtype)

    def start(
        self,
        handle: _invoker.RemoteFunction,
        data: Any,
        *,
        timeout: Optional[float] = None,
        response_capacity: Optional[int] = None,
        out: Any = None,
        dtype: Any = None,
        may_block: bool = True,
        whole: Optional[CallFuture] = None,
    ) -> Optional[Future]:
        """The future of a call; None if it would have to wait for room and may not. whole: as for CallFuture."""
        arguments.check_call(timeout, response_capacity)
        finish: Callable[[memoryview], Any] = _same
        if out is not None or dtype is not None:
            target = None if out is None else buffers.byte_view(out)
            plain = None if dtype is None else buffers.plain_dtype(dtype)
            finish = functools.partial(_finish, target, plain)
            most = self.native.max_payload
            if target is not None and response_capacity is None and len(target) > most // 64:
                response_capacity = min(len(target), most)
        native = self.native
        return self.dispatcher.start(
            lambda token: native.start(token, handle, data, timeout, response_capacity, may_block),
            finish,
            writes=out is not None,
            whole=whole,
        )

    def submit(self, handle: _invoker.RemoteFunction, data: Any, **options: Any) -> Future:
        """Like Client.submit()."""
        future = self.start(handle, data, **options)
        assert future is not None
        return future

    async def acall(self, handle: _invoker.RemoteFunction, data: Any, **options: Any) -> Any:
        """Like Client.acall()."""
        return await futures.result_of(
            lambda may_block: self.start(handle, data, may_block=may_block, **options)
        )

    def default_in_flight(self) -> int:
        return 2

    def call_remote(self, call: RemoteCall, args: tuple, kwargs: dict) -> Any:
        return self.frames.call(self.handle(call.name), args, kwargs, call.timeout, call.response_capacity)

    def begin_remote(self, call: RemoteCall, parts: frames.Parts, may_block: bool) -> Optional[Future]:
        handle = self.handle(call.name)
        return self.frames.start(handle, parts, call.timeout, call.response_capacity, may_block)

    # For a SessionGroup.

    def end_calls(self) -> None:
        """Ends calls under way, as close() does first. Waits for no callback of a future."""
        self.native.close()

    def let_go(self) -> None:
        """Like close(), but callbacks of futures may still run, or come."""
        self.native.close()
        self.bound.clear()
        self.dispatcher.stop(wait=False)

    def has_gone(self) -> bool:
        """Whether it has been let go of, and no callback of a future runs any more."""
        return self.dispatcher.ended()

    def watch(self, bell: _invoker.Bell) -> None:
        """Has the bell rung once the worker, or its lease, has ended the session."""
        self.native.watch(bell)

    def has_ended(self) -> bool:
        """Whether that bell has been rung. Cheap."""
        return self.native.ended


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
