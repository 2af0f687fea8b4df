"""Futures in the order in which they end."""

from __future__ import annotations

import queue
import time
from concurrent.futures import Future
from typing import Optional

# Seconds. The kernel may give a signal to another thread, and then nothing wakes the main thread.
_SIGNALS_LOOKED_AT_EVERY = 0.1


class Ended:
    """Futures, as they end."""

    def __init__(self) -> None:
        self._queue: Optional[queue.SimpleQueue[Future]] = queue.SimpleQueue()

    def note(self, future: Future) -> None:
        """For the future's callback."""
        ended = self._queue
        if ended is not None:
            ended.put(future)

    def get(self, until: Optional[float] = None) -> Optional[Future]:
        """Blocks until there is one, and signal handlers run meanwhile; None from until on, by time.monotonic(). Before close()."""
        while True:
            assert self._queue is not None
            patience = _SIGNALS_LOOKED_AT_EVERY
            if until is not None:
                patience = max(0.0, min(patience, until - time.monotonic()))
            try:
                return self._queue.get(timeout=patience)
            except queue.Empty:
                if patience == 0:
                    return None

    def close(self) -> None:
        """Forgets them. Each future refers to this by its callback, and so would keep all of them, and their lease."""
        self._queue = None
