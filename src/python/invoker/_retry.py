"""Calls of a Group that are tried again on another session, because their callers ask for it."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

from invoker import _arguments
from invoker._futures import CallFuture
from invoker.errors import Aborted, DataLoss, Internal, InvokerError, RemoteTraceback, Unavailable

if TYPE_CHECKING:
    from invoker.group import Group


class Tries:
    """How often one call may still be tried, and with which options."""

    def __init__(self, group: Group, options: Dict[str, Any]) -> None:
        self._group = group
        self._options = dict(options)
        self.left = _arguments.whole("retry", self._options.pop("retry", 0), least=0)
        timeout: Optional[float] = self._options.get("timeout")
        self._deadline: Optional[float] = None
        if self.left > 0 and timeout is not None:
            self._deadline = time.monotonic() + _arguments.seconds("timeout", timeout)

    def options(self) -> Dict[str, Any]:
        """Those of the next try."""
        if self._deadline is None:
            return self._options
        return {**self._options, "timeout": self._deadline - time.monotonic()}

    def may_try(self, error: BaseException) -> bool:
        """Whether to try again after a try that failed like this, which counts as one."""
        if self.left == 0 or not _may_run_elsewhere(error) or not self._group._others_left():
            return False
        if self._deadline is not None and time.monotonic() >= self._deadline:
            return False
        self.left -= 1
        return True


def shows_lost_session(error: Optional[BaseException]) -> bool:
    """Whether a call that failed like this shows that its session takes no calls any more."""
    # A function may raise the same, which says nothing of its worker.
    if not isinstance(error, InvokerError) or isinstance(error.__cause__, RemoteTraceback):
        return False
    return error.fate != "executed" and isinstance(
        error, (Unavailable, Aborted, DataLoss, Internal)
    )


def _may_run_elsewhere(error: BaseException) -> bool:
    if not isinstance(error, InvokerError) or not shows_lost_session(error):
        return False
    if error.fate == "not_executed":
        return isinstance(error, Unavailable)
    return error.fate in ("not_sent", "maybe_executed")


def submit(tries: Tries, start: Callable[[Optional[CallFuture]], Future]) -> Future:
    """The future of start()'s calls: of the first, or of the last that was tried.

    start is given the future of which its call is one try, if there may be several.
    """
    if tries.left == 0:
        return start(None)
    whole = CallFuture()

    def begin() -> None:
        future = start(whole)
        whole._end = future.cancel
        future.add_done_callback(ended)
        if whole.cancelled():
            future.cancel()

    def ended(future: Future) -> None:
        if future.cancelled() or whole.cancelled():
            return
        error = future.exception()
        if error is None:
            whole.complete(future.result(), False)
            return
        if tries.may_try(error):
            try:
                begin()
                return
            except Exception as refusal:
                error = refusal
        whole.complete(error, True)

    begin()
    return whole
