"""Calls of a Group that wait for room in the windows, on a thread of their own."""

from __future__ import annotations

import threading
import time
from typing import Callable, List, Optional

from invoker._calls.ends import Ends

# How often to try: while some can be started, and after a while without.
_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.016


class Waiting:
    """Tries each call now and then. The thread is there while there are any.

    The calls are tried again because their worker was lost. The thread that brings the news has other calls to tell, and
    must not wait.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Under the lock.
        self._attempts: List[Callable[[], bool]] = []
        self._thread: Optional[threading.Thread] = None
        self._ends = Ends()

    def add(self, attempt: Callable[[], bool]) -> None:
        """attempt starts the call, or ends it, and does not wait for room; False: it is to be tried again."""
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="invoker-room", daemon=True)
                thread.start()
                self._thread = thread
            self._attempts.append(attempt)

    def end(self, end: Callable[[], None]) -> None:
        """Runs end, which may run callbacks of the program: never on the thread on which further calls wait."""
        if threading.current_thread() is self._thread:
            self._ends.run(end)
        else:
            end()

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            with self._lock:
                attempts, self._attempts = self._attempts, []
                if not attempts:
                    self._thread = None
                    return
            left = [attempt for attempt in attempts if not attempt()]
            pause = _FIRST_PAUSE if len(left) < len(attempts) else min(2 * pause, _LONGEST_PAUSE)
            with self._lock:
                self._attempts[:0] = left
            if left:
                # Nothing of a call that has started is kept meanwhile.
                attempts = left = []
                time.sleep(pause)
