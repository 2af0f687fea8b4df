"""NativeCalls: calls over a client or a group of the native half."""

from __future__ import annotations

import functools
import weakref
from typing import Any, Callable, Dict, Optional

from invoker._calls import arguments, futures
from invoker._calls.caller import Caller, RemoteCall
from invoker._calls.connecting import Connecting
from invoker._calls.dispatch import Dispatcher
from invoker._calls.frame_calls import FrameCalls, Native
from invoker._calls.futures import CallFuture
from invoker._native import _invoker, buffers
from invoker.errors import FailedPrecondition


class NativeCalls(Caller):
    """Calls over a session with a worker, or over several as one. It closes when nothing refers to it any more."""

    def __init__(self, native: Native, way: Optional[Connecting] = None, *, owned: bool = True) -> None:
        """way: to the worker, or to all workers of a group; None for executors of a lease. owned: else the sessions are a
        group's, and calls under way go on when this closes."""
        self.native = native
        self.way = way
        self.dispatcher = Dispatcher(native)
        self.frames = FrameCalls(native, self.dispatcher)
        # They refer to the native half only, so that they do not keep these calls.
        self.bound: Dict[str, _invoker.BoundFunction] = {}
        # Also runs when the interpreter exits.
        self._finalizer = weakref.finalize(self, _close, native, self.dispatcher, self.bound, owned)

    def worker(self) -> Connecting:
        """The way to the only worker; FailedPrecondition if this is an executor of a lease."""
        if self.way is None:
            raise FailedPrecondition("this is an executor of a lease: it leases nothing itself")
        return self.way

    def bind(self, name: str) -> _invoker.BoundFunction:
        """Looks a function up. `bound` has those that were looked up before."""
        name = arguments.text("a function's name", name)
        bound = _invoker.BoundFunction(self.native, self.native.function(name))
        return self.bound.setdefault(name, bound)

    def find(self, name: str) -> _invoker.BoundFunction:
        """The function of that name."""
        return self.bound.get(name) or self.bind(name)

    def start(
        self,
        bound: _invoker.BoundFunction,
        data: Any,
        *,
        timeout: Optional[float] = None,
        response_capacity: Optional[int] = None,
        out: Any = None,
        dtype: Any = None,
        retry: int = 0,
        may_block: bool = True,
    ) -> Optional[CallFuture]:
        """The future of a call; None if it would have to wait for room and may not."""
        arguments.check_call(timeout, response_capacity)
        tries = arguments.whole("retry", retry)
        target = None if out is None else buffers.byte_view(out)
        plain = None if dtype is None else buffers.plain_dtype(dtype)
        room = 0 if target is None else len(target)
        return self.dispatcher.start(
            lambda: bound.begin(data, timeout, response_capacity, room, tries, may_block),
            None if target is None and plain is None else functools.partial(_finish, target, plain),
        )

    def submit(self, bound: _invoker.BoundFunction, data: Any, **options: Any) -> CallFuture:
        """Like Client.submit()."""
        future = self.start(bound, data, **options)
        assert future is not None
        return future

    async def acall(self, bound: _invoker.BoundFunction, data: Any, **options: Any) -> Any:
        """Like Client.acall()."""
        return await futures.result_of(
            lambda may_block: self.start(bound, data, may_block=may_block, **options)
        )

    def executors(self) -> int:
        # A group that has been closed has none, and its first call says so.
        return max(1, self.native.executors)

    def call_remote(self, call: RemoteCall, args: tuple, kwargs: dict) -> Any:
        return self.frames.call(self.find(call.name).handle, args, kwargs, call.timeout, call.response_capacity)

    def begin_remote(self, call: RemoteCall, frame: _invoker.Frame, may_block: bool) -> Optional[CallFuture]:
        handle = self.find(call.name).handle
        return self.frames.start(handle, frame, call.timeout, call.response_capacity, may_block)

    def close(self) -> None:
        """Ends calls under way and the sessions, and waits for callbacks of futures. Again: does nothing."""
        self._finalizer()


def _finish(target: Optional[memoryview], plain: Any, view: memoryview, session: int) -> Any:
    if target is not None:
        view = buffers.copy_into(target, view)
    return view if plain is None else buffers.as_array(view, plain)


def end_calls(native: Native, bound: Dict[str, _invoker.BoundFunction]) -> None:
    """Ends calls under way and the sessions. Waits for no callback of a future."""
    native.close()
    # So that a name is looked up, and the lookup says that this has been closed.
    bound.clear()


def _close(
    native: Native, dispatcher: Dispatcher, bound: Dict[str, _invoker.BoundFunction], owned: bool
) -> None:
    end_calls(native, bound)
    dispatcher.stop(wait=owned)
