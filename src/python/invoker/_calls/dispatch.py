"""Starts calls, and completes those futures that are watched, on a thread for each client."""

from __future__ import annotations

import itertools
import logging
import threading
from typing import Callable, Dict, Optional

from invoker._calls.event_loops import LoopsOfClient
from invoker._calls.futures import CallFuture, Finish
from invoker._native import _invoker
from invoker._native._invoker import NativeCaller, StartedCall
from invoker._native.fork import renew_locks_of
from invoker.errors import InvokerError

_logger = logging.getLogger("invoker")

# Whether a thread is a dispatcher's.
_here = threading.local()


class Dispatcher:
    """Makes futures of calls. The first one that is watched starts the thread.

    Refers to the native half only, so that it does not keep the calls.
    """

    def __init__(self, native: NativeCaller) -> None:
        self._native = native
        self.loops = LoopsOfClient()
        self._ended = _invoker.EndedQueue()
        self._tokens = itertools.count()
        renew_locks_of(self)
        # Under the lock.
        self._watched: Dict[int, CallFuture] = {}
        self._thread: Optional[threading.Thread] = None
        self._stopping = False

    def renew_locks(self) -> None:
        self._lock = threading.Lock()

    def start(self, begin: Callable[[], Optional[StartedCall]], finish: Optional[Finish] = None) -> Optional[CallFuture]:
        """The future of a call that begin() starts; None if that is None: it would have to wait for room."""
        try:
            call = begin()
        except InvokerError as error:
            return self.not_started(error)
        return None if call is None else CallFuture(call, self, finish)

    def not_started(self, error: InvokerError) -> CallFuture:
        """The future of a call that could not be started. Raises instead if no call can be any more."""
        if self._native.closed or self._native.forked:
            raise error
        return CallFuture.failed(error, self)

    def watch(self, call: StartedCall, future: CallFuture) -> bool:
        """Has the thread complete the future at the end of its call. False, and it does not, if the call has ended."""
        token = next(self._tokens)
        with self._lock:
            self._watched[token] = future
            # One that has no number has been kept from starting.
            if self._thread is None or self._thread.ident is None:
                self._thread = threading.Thread(target=self._run, name="invoker", daemon=True)
                self._thread.start()
        if call.watch(self._ended, token):
            call.leave_to_helper()
            return True
        with self._lock:
            self._watched.pop(token, None)
            if self._stopping:
                self._ended.wake()
        return False

    def stop(self, wait: bool = True) -> None:
        """Ends the thread once all futures are complete, and waits for that; the native half has been closed before.

        Does not wait in a callback of a future: of two that close each other's clients, each would wait for the other.
        """
        # A forked process has no such thread.
        if self._native.forked:
            return
        self.loops.leave()
        with self._lock:
            self._stopping = True
            thread = self._thread
        if thread is None or thread.ident is None:
            return
        self._ended.wake()
        if wait and not getattr(_here, "dispatches", False):
            # Not for ever at a time: a signal that another thread got does not end the wait (_invoker.Event).
            while thread.is_alive():
                thread.join(0.1)

    def _run(self) -> None:
        _here.dispatches = True
        while True:
            with self._lock:
                if self._stopping and not self._watched:
                    return
            for token in self._ended.wait(None):
                with self._lock:
                    future = self._watched.pop(token, None)
                try:
                    if future is not None:
                        future.complete_watched()
                except BaseException:
                    # A callback raised this. Other futures must not suffer for it.
                    _logger.exception("a callback of a future failed")
                # Nothing of a result is kept while this thread waits for the next one.
                future = None
