"""Calls of a Group that are tried again on another session, because their callers ask for it."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Any, Callable, Dict, Optional, Protocol

from invoker._calls import arguments
from invoker._calls.futures import CallFuture
from invoker._calls.waiting import Waiting
from invoker.errors import (
    Aborted,
    DataLoss,
    DeadlineExceeded,
    Internal,
    InvokerError,
    RemoteTraceback,
    Unavailable,
)


class _Group(Protocol):
    """As much of a SessionGroup as tries of a call need."""

    waiting: Waiting

    def others_left(self) -> bool: ...


class Tries:
    """How often one call may still be tried, and with which options."""

    def __init__(self, group: _Group, options: Dict[str, Any]) -> None:
        self._group = group
        self._options = dict(options)
        self.left = arguments.whole("retry", self._options.pop("retry", 0), least=0)
        timeout: Optional[float] = self._options.get("timeout")
        self._deadline: Optional[float] = None
        # By a try before the last one.
        self._maybe_executed = False
        if self.left > 0 and timeout is not None:
            self._deadline = time.monotonic() + arguments.seconds("timeout", timeout)

    def options(self) -> Dict[str, Any]:
        """Those of the next try."""
        if self._deadline is None:
            return self._options
        return {**self._options, "timeout": self._deadline - time.monotonic()}

    def wait_for_room(self, attempt: Callable[[], bool]) -> None:
        """Calls attempt, on another thread, until it returns True. RuntimeError: there is no thread."""
        self._group.waiting.add(attempt)

    def end(self, whole: CallFuture, value: Any, failed: bool) -> None:
        """Ends the call, on any thread."""
        self._group.waiting.end(lambda: whole.complete(value, failed))

    def may_try(self, error: BaseException) -> bool:
        """Whether to try again after a try that failed like this, which counts as one. If not, the error is the call's."""
        if (
            self.left == 0
            or not _may_run_elsewhere(error)
            or not self._group.others_left()
            or self.late()
        ):
            self.settle(error)
            return False
        assert isinstance(error, InvokerError)
        self._maybe_executed |= error.fate == "maybe_executed"
        self.left -= 1
        return True

    def settle(self, error: BaseException) -> None:
        """Sets the fate of the error that the call ends with to that of all tries together."""
        if self._maybe_executed and isinstance(error, InvokerError):
            if error.fate in ("not_sent", "not_executed"):
                error.fate = "maybe_executed"

    def late(self) -> bool:
        """Whether the deadline of all tries has passed."""
        return self._deadline is not None and time.monotonic() >= self._deadline


def shows_lost_session(error: Optional[BaseException]) -> bool:
    """Whether a call that failed like this shows that its session takes no calls any more."""
    # A function may raise the same, which says nothing of its worker.
    if not isinstance(error, InvokerError) or isinstance(error.__cause__, RemoteTraceback):
        return False
    # What its worker has refused shows it only if the worker is going away.
    if error.fate == "not_executed":
        return isinstance(error, Unavailable)
    return error.fate != "executed" and isinstance(
        error, (Unavailable, Aborted, DataLoss, Internal)
    )


def _may_run_elsewhere(error: BaseException) -> bool:
    if not isinstance(error, InvokerError) or not shows_lost_session(error):
        return False
    return error.fate in ("not_sent", "not_executed", "maybe_executed")


def submit(
    tries: Tries, start: Callable[[bool, Optional[CallFuture]], Optional[Future]]
) -> Future:
    """The future of start(may_block, whole)'s calls: of the first, or of the last that was tried.

    start gives None if its call would have to wait for room and may not. whole is the future of which its call is one try, if
    there may be several.
    """
    if tries.left == 0:
        only = start(True, None)
        assert only is not None
        return only
    whole = CallFuture()

    def begin(may_block: bool) -> bool:
        future = start(may_block, whole)
        if future is None:
            return False
        whole.ends_by(future.cancel)
        future.add_done_callback(ended)
        if whole.cancelled():
            future.cancel()
        return True

    def begin_again(lost: InvokerError) -> bool:
        if whole.cancelled():
            return True
        try:
            if tries.late():
                raise DeadlineExceeded("the deadline passed while the call waited for room", fate="not_sent")
            return begin(False)
        except InvokerError as refusal:
            tries.settle(refusal)
            tries.end(whole, refusal, True)
        except Exception as failure:
            give_up(lost, failure)
        return True

    def give_up(lost: InvokerError, because: BaseException) -> None:
        """Ends a call that cannot be tried again, for want of a thread perhaps, with the error of its tries."""
        lost.__cause__ = because
        tries.settle(lost)
        tries.end(whole, lost, True)

    def ended(future: Future) -> None:
        if future.cancelled() or whole.cancelled():
            return
        error = future.exception()
        if error is None:
            tries.end(whole, future.result(), False)
            return
        if not tries.may_try(error):
            tries.end(whole, error, True)
            return
        assert isinstance(error, InvokerError)
        lost = error
        if not begin_again(lost):
            try:
                tries.wait_for_room(lambda: begin_again(lost))
            except RuntimeError as no_thread:
                give_up(lost, no_thread)

    begin(True)
    return whole
