"""Futures of calls, which can be cancelled while the calls are under way."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from concurrent.futures import Future, InvalidStateError
from typing import Any, Callable, Optional


class CallFuture(Future):
    """The future of a call that has been started. Cancelling it ends the call for its caller, and the worker is told.

    The worker does not begin with a call that was cancelled before its turn came; a function that runs already may ask
    (invoker.cancelled()). Like any other future, one that has ended cannot be cancelled.
    """

    def __init__(self, whole: Optional[CallFuture] = None) -> None:
        """whole: the future that the caller has, if this is one try of its call."""
        super().__init__()
        self._whole = whole
        # What ends the call; set before anybody else has the future.
        self._end: Optional[Callable[[], Any]] = None
        # Taken by the first of cancel() and claim().
        self._once = threading.Lock()

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
            if self._end is not None:
                self._end()
        return True

    def claim(self) -> bool:
        """For who is about to write to the caller's memory: whether the future has not been cancelled. It then cannot be."""
        if self._whole is not None and not self._whole.claim():
            return False
        return self._once.acquire(blocking=False) and self.set_running_or_notify_cancel()

    def complete(self, value: Any, failed: bool) -> None:
        """The call has ended. What comes after a cancellation is nobody's."""
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
