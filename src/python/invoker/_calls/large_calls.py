"""Calls that keep a thread each: a few at once, the others in line until their turn or their deadline comes."""

from __future__ import annotations

import collections
import logging
import threading
import time
from concurrent.futures import Future
from typing import Any, Callable, Deque, List, NamedTuple, Optional, Set

from invoker._native.fork import renew_locks_of
from invoker._calls.futures import WaitedFuture
from invoker.errors import DeadlineExceeded

_logger = logging.getLogger("invoker")

_AT_ONCE = 2


class _Call(NamedTuple):
    future: Future
    run: Callable[[], Any]
    # By time.monotonic().
    deadline: Optional[float]


class LargeCalls:
    """Runs calls that block, on threads of its own: at most two at once, the others in line, in order. Any thread.

    One thread more stands by while there is a line, for calls whose deadlines pass there. A thread ends when there is
    nothing left to run. All are daemons, so that a call that never returns does not keep the interpreter from exiting.
    """

    def __init__(self) -> None:
        renew_locks_of(self)
        # Under the lock.
        self._line: Deque[_Call] = collections.deque()
        self._running = 0
        self._threads: Set[threading.Thread] = set()

    def renew_locks(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)

    def start(self, run: Callable[[], Any], deadline: Optional[float]) -> Future:
        """The future of run(), which cannot be cancelled; DeadlineExceeded if the deadline ends before its turn."""
        future = WaitedFuture()
        future.set_running_or_notify_cancel()
        with self._lock:
            # A signal's exception comes between any two steps: it leaves a thread that finds nothing to do, or a call
            # whose result is dropped.
            if len(self._threads) <= _AT_ONCE:
                thread = threading.Thread(target=self._work, name="invoker-large", daemon=True)
                thread.start()
                self._threads.add(thread)
            self._line.append(_Call(future, run, deadline))
            self._changed.notify_all()
        return future

    def _work(self) -> None:
        while self._step():
            pass

    def _step(self) -> bool:
        """Runs the next call, ends late ones, or waits until there may be either. False: no calls are left."""
        call = None
        with self._lock:
            late = self._take_late()
            if not late:
                if not self._line:
                    self._threads.discard(threading.current_thread())
                    return False
                if self._running == _AT_ONCE:
                    self._changed.wait(self._until_late())
                    return True
                call = self._line.popleft()
                self._running += 1
        for each in late:
            _complete(each.future, _too_late)
        if call is not None:
            try:
                _complete(call.future, call.run)
            finally:
                with self._lock:
                    self._running -= 1
                    self._changed.notify_all()
        return True

    def _take_late(self) -> List[_Call]:
        now = time.monotonic()
        late = [call for call in self._line if _is_late(call, now)]
        if late:
            self._line = collections.deque(call for call in self._line if not _is_late(call, now))
        return late

    def _until_late(self) -> Optional[float]:
        deadlines = [call.deadline for call in self._line if call.deadline is not None]
        if not deadlines:
            return None
        return min(max(min(deadlines) - time.monotonic(), 0.0), threading.TIMEOUT_MAX)


def _is_late(call: _Call, now: float) -> bool:
    return call.deadline is not None and call.deadline <= now


def _too_late() -> Any:
    raise DeadlineExceeded(
        "the deadline passed while the call, whose request is larger than the window, waited for others of that kind; "
        "it was not sent",
        fate="not_sent",
    )


def _complete(future: Future, run: Callable[[], Any]) -> None:
    try:
        try:
            result = run()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)
    except BaseException:
        # A callback raised this. Other calls must not suffer for it.
        _logger.exception("a callback of a future failed")
