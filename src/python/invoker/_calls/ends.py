"""Runs the callbacks of calls that have ended, on threads of their own."""

from __future__ import annotations

import collections
import logging
import threading
from typing import Callable, Deque

_logger = logging.getLogger("invoker")

# So many ends that block hold up no other.
_MOST_THREADS = 64


class Ends:
    """Runs each end as soon as there is a thread for it. The threads are there while there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Under the lock.
        self._due: Deque[Callable[[], None]] = collections.deque()
        self._threads = 0

    def run(self, end: Callable[[], None]) -> None:
        """Does not wait for it, unless the system has no thread for it."""
        with self._lock:
            self._due.append(end)
            if self._threads == _MOST_THREADS:
                return
            try:
                threading.Thread(target=self._run, name="invoker-ends", daemon=True).start()
                self._threads += 1
                return
            except RuntimeError:
                if self._threads > 0:
                    return
                self._due.pop()
        _run_one(end)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._due:
                    self._threads -= 1
                    return
                end = self._due.popleft()
            _run_one(end)
            # Nothing of a call that has ended is kept.
            del end


def _run_one(end: Callable[[], None]) -> None:
    try:
        end()
    except BaseException:  # a callback's own affair, even SystemExit: other ends are waiting
        _logger.exception("an exception in a callback of a call that has ended")
