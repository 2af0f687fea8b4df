"""Futures of calls, which can be cancelled while the calls are under way."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from concurrent.futures import Future, InvalidStateError
from concurrent.futures._base import PENDING, RUNNING
from typing import Any, Callable, Optional

from invoker._native import _invoker


class WaitedFuture(Future):
    """A future of which the main thread can wait for the result, and signal handlers run meanwhile (_invoker.Event)."""

    def __init__(self) -> None:
        super().__init__()
        # The main thread waits for this.
        self._over: Optional[_invoker.Event] = None
        # The first of all, so that no other keeps the main thread waiting.
        self.add_done_callback(_end_wait)

    def result(self, timeout: Optional[float] = None) -> Any:
        """Waits for the call's result. Raises the error it failed with, or TimeoutError after timeout seconds."""
        try:
            self._wait(timeout)
            return super().result(timeout)
        finally:
            # Like in any future: an exception refers to this frame, which must not refer to the exception.
            self = None  # type: ignore[assignment]

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        """Waits for the end of the call. Returns its error, or None; raises TimeoutError after timeout seconds."""
        self._wait(timeout)
        return super().exception(timeout)

    def _wait(self, timeout: Optional[float]) -> None:
        """For the end, on the main thread; leaves it to the caller on others."""
        if not self._is_open() or threading.get_ident() != threading.main_thread().ident:
            return
        over = self._over = self._over or _invoker.Event()
        # It may have ended before that, or be about to tell.
        if self._is_open() and not over.wait(timeout) and self._is_open():
            raise concurrent.futures.TimeoutError()

    def _is_open(self) -> bool:
        """Like not done(), without its lock: a signal handler's exception may leave that taken, and the call could not end."""
        return self._state in (PENDING, RUNNING)


def _end_wait(future: Future) -> None:
    assert isinstance(future, WaitedFuture)
    if future._over is not None:
        future._over.set()


class CallFuture(WaitedFuture):
    """The future of a call that has been started. Cancelling it ends the call for its caller, and the worker is told.

    The worker does not begin with a call that was cancelled before its turn came; a function that runs already may ask
    (invoker.cancelled()). Like any other future, one that has ended cannot be cancelled.
    """

    def __init__(self) -> None:
        super().__init__()
        self._end: Optional[Callable[[], Any]] = None
        # Taken by the first of cancel() and claim().
        self._once = threading.Lock()

    def ends_by(self, end: Callable[[], Any]) -> None:
        """cancel() ends the call by this. Before anybody else has the future."""
        self._end = end

    def running(self) -> bool:
        """Whether the call is under way."""
        return not self.done()

    def cancel(self) -> bool:
        """Cancels the call, unless it has ended or its result is being written. True if it is cancelled."""
        if not super().cancel():
            return False
        if self._once.acquire(blocking=False):
            # For as_completed() and wait().
            self.set_running_or_notify_cancel()
            end = self._end
            if end is not None:
                end()
        return True

    def claim(self) -> bool:
        """Before a write to the caller's memory: False if the future has been cancelled; else it no longer can be."""
        return self._once.acquire(blocking=False) and self.set_running_or_notify_cancel()

    def complete(self, value: Any, failed: bool) -> None:
        """The call has ended. A result that comes after a cancellation is dropped."""
        # It refers to what the call has kept.
        self._end = None
        try:
            if failed:
                self.set_exception(value)
            else:
                self.set_result(value)
        except InvalidStateError:
            if not self.cancelled():
                raise


async def result_of(begin: Callable[[bool], Optional[Future]]) -> Any:
    """The result of the call that begin(may_block) starts, from asyncio; begin gives None if it would block and may not.

    Cancelling the task cancels the call.
    """
    future = begin(False)
    if future is None:
        waiting = asyncio.get_running_loop().run_in_executor(None, begin, True)
        try:
            future = await asyncio.shield(waiting)
        except asyncio.CancelledError:
            waiting.add_done_callback(_cancel_started)
            raise
    assert future is not None
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        if isinstance(future, CallFuture) and not future.cancelled():
            # Its result is being copied into out=: the caller goes on when that is over.
            concurrent.futures.wait([future])
        raise


def _cancel_started(waiting: "asyncio.Future[Optional[Future]]") -> None:
    if not waiting.cancelled() and waiting.exception() is None:
        future = waiting.result()
        assert future is not None
        future.cancel()
