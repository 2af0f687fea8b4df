"""Futures of calls, which can be cancelled while the calls are under way."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, InvalidStateError
from typing import Any, Callable, Optional


class CallFuture(Future):
    """The future of a call that has been started. Cancelling it ends the call for its caller, and the worker is told.

    The worker does not begin with a call that was cancelled before its turn came; a function that runs already may ask
    (invoker.cancelled()). Like any other future, one that has ended cannot be cancelled.
    """

    def __init__(self) -> None:
        super().__init__()
        # What ends the call; set before anybody else has the future.
        self._end: Optional[Callable[[], Any]] = None
        self._once = threading.Lock()

    def running(self) -> bool:
        """Whether the call is under way."""
        return not self.done()

    def cancel(self) -> bool:
        """Cancels the call, unless it has ended. True if it is cancelled."""
        if not super().cancel():
            return False
        if self._once.acquire(blocking=False):
            # For as_completed() and wait().
            self.set_running_or_notify_cancel()
            if self._end is not None:
                self._end()
        return True

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
    return await asyncio.wrap_future(future)


def _cancel_started(waiting: "asyncio.Future[Optional[Future]]") -> None:
    if not waiting.cancelled() and waiting.exception() is None:
        future = waiting.result()
        assert future is not None
        future.cancel()
