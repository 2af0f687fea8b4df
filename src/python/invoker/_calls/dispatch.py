"""Futures: the thread that hands out the results of calls."""

from __future__ import annotations

import functools
import itertools
import logging
import threading
from concurrent.futures import Future
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from invoker._native.fork import renew_locks_of
from invoker._calls.futures import CallFuture
from invoker._native._invoker import NativeCaller, StartedCall
from invoker.errors import FailedPrecondition, InvokerError

_logger = logging.getLogger("invoker")

# Whether a thread is a dispatcher's.
_here = threading.local()


class _Expected(NamedTuple):
    """What becomes of a call's response."""

    future: CallFuture
    finish: Callable[[memoryview, int], Any]
    writes: bool


class Dispatcher:
    """Starts calls and completes their futures, on a thread of its own that the first call starts.

    Refers to the native half only, so that it does not keep the calls.
    """

    def __init__(self, native: NativeCaller) -> None:
        self._native = native
        self._tokens = itertools.count(1)
        renew_locks_of(self)
        # Under the lock.
        self._pending: Dict[int, _Expected] = {}
        self._thread: Optional[threading.Thread] = None
        self._stopping = False

    def renew_locks(self) -> None:
        self._lock = threading.Lock()

    def start(
        self,
        begin: Callable[[int], Optional[StartedCall]],
        finish: Callable[[memoryview, int], Any],
        *,
        writes: bool = False,
    ) -> Optional[Future]:
        """The future of a call that begin(token) starts; None if that is None: it would have to wait for room.

        finish makes the future's result of the response and the number of its session, on the dispatcher's thread. writes:
        it writes to memory of the caller's, which it may only if the call has not been cancelled.
        """
        future = CallFuture()
        token = next(self._tokens)
        try:
            self._expect(token, _Expected(future, finish, writes))
            call = begin(token)
        except InvokerError as error:
            self._forget(token)
            if self._native.closed or self._native.forked:
                raise
            future.set_exception(error)
            return future
        except BaseException:
            # A signal's exception comes between any two steps, also once the call has been started. Its result is then dropped.
            self._forget(token)
            raise
        if call is None:
            self._forget(token)
            return None
        future.ends_by(functools.partial(self._native.cancel, call))
        return future

    def _expect(self, token: int, expected: _Expected) -> None:
        with self._lock:
            if self._stopping:
                raise FailedPrecondition("the client or group has been closed", fate="not_sent")
            self._pending[token] = expected
            # One that has no number has been kept from starting.
            if self._thread is None or self._thread.ident is None:
                self._thread = threading.Thread(target=self._run, name="invoker", daemon=True)
                self._thread.start()

    def _forget(self, token: int) -> None:
        with self._lock:
            self._pending.pop(token, None)
            if self._stopping:
                self._native.wake()

    def stop(self, wait: bool = True) -> None:
        """Ends the thread once all futures are complete, and waits for that; the native half has been closed before.

        Does not wait in a callback of a future: of two that close each other's clients, each would wait for the other.
        """
        # A forked process has no such thread.
        if self._native.forked:
            return
        with self._lock:
            self._stopping = True
            thread = self._thread
        if thread is None or thread.ident is None:
            return
        self._native.wake()
        if wait and not getattr(_here, "dispatches", False):
            # Not for ever at a time: a signal that another thread got does not end the wait (_invoker.Event).
            while thread.is_alive():
                thread.join(0.1)

    def _run(self) -> None:
        _here.dispatches = True
        while True:
            with self._lock:
                if self._stopping and not self._pending:
                    return
            try:
                results = self._native.next_results()
            except BaseException as error:
                # Some results have been lost for want of memory, and it is not known which.
                results = self._all_pending(error)
            for token, value, session in results:
                with self._lock:
                    expected = self._pending.pop(token, None)
                if expected is None:
                    continue
                try:
                    _complete(expected, value, session)
                except BaseException:
                    # A callback raised this. Other futures must not suffer for it.
                    _logger.exception("a callback of a future failed")
            # Nothing of a result is kept while this thread waits for the next one.
            expected = value = results = None  # noqa: F841

    def _all_pending(self, error: BaseException) -> List[Tuple[int, Any, int]]:
        with self._lock:
            return [(token, error, 0) for token in self._pending]


def _complete(expected: _Expected, value: Any, session: int) -> None:
    future = expected.future
    failed = isinstance(value, BaseException)
    if future.cancelled() or (expected.writes and not failed and not future.claim()):
        return
    if not failed:
        try:
            value = expected.finish(value, session)
        except BaseException as error:
            value = error
            failed = True
    future.complete(value, failed)
