"""The thread of a Group that connects again to workers that were lost."""

from __future__ import annotations

import random
import threading
import time
import weakref
from typing import Dict, List, Optional, Protocol, Tuple

from invoker._calls.session import Session
from invoker._native._invoker import Bell

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 1.0
# The longest step of a try, for which Group.close() waits.
_LONGEST_STEP = 1.0


class _Group(Protocol):
    """As much of a SessionGroup as connecting again needs."""

    def ended_sessions(self) -> List[int]: ...

    def connect_again(self, index: int, longest_step: float) -> bool: ...


class Reconnector:
    """Tries each lost session's worker after 0.1 s, then after twice as long each time, up to a second.

    Waits for no callback of a future, since that may be waiting for a worker to be back.

    Refers to the group weakly, so that it does not keep it.
    """

    def __init__(self, group: _Group, bell: Bell) -> None:
        """The bell is also rung when a session of the group's has ended."""
        self._group = weakref.ref(group)
        self._bell = bell
        self._lock = threading.Lock()
        # Under the lock: by session, when to try next, and the pause after that.
        self._lost: Dict[int, Tuple[float, float]] = {}
        # Under the lock too: sessions that have been replaced, and that no call uses any more.
        self._unused: List[Session] = []
        self._stopping = False
        self._thread: threading.Thread = threading.Thread(
            target=self._run, name="invoker-reconnect", daemon=True
        )

    def start(self) -> None:
        """Starts the thread, which ends with stop() or the group."""
        self._thread.start()
        group = self._group()
        if group is not None:
            weakref.finalize(group, self._end)

    def lost(self, index: int) -> None:
        """The session has been lost."""
        with self._lock:
            if index in self._lost:
                return
            self._lost[index] = (time.monotonic() + _jitter(_FIRST_PAUSE), 2 * _FIRST_PAUSE)
        self._bell.ring()

    def unused(self, session: Session) -> None:
        """The session has been replaced, and no call uses it any more: it is closed, except for callbacks."""
        with self._lock:
            self._unused.append(session)
        self._bell.ring()

    def stop(self) -> None:
        """Ends the thread; waits for a try that is under way."""
        self._end()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _end(self) -> None:
        self._stopping = True
        self._bell.ring()

    def _run(self) -> None:
        while not self._stopping:
            group = self._group()
            if group is None:
                return
            for index in group.ended_sessions():
                self.lost(index)
            del group
            with self._lock:
                unused = self._unused.pop() if self._unused else None
                due = [] if unused is not None else self._due()
                # Taken out: a report during the try means another loss.
                pause = self._lost.pop(due[0])[1] if due else 0.0
                until_due = self._until_due()
            if unused is not None:
                unused.let_go()
                del unused
            elif not due:
                self._bell.wait(until_due)
            elif not self._try(due[0]):
                with self._lock:
                    self._lost[due[0]] = (
                        time.monotonic() + _jitter(pause),
                        min(2 * pause, _LONGEST_PAUSE),
                    )

    def _due(self) -> List[int]:
        now = time.monotonic()
        return [index for index, (at, _) in self._lost.items() if at <= now]

    def _until_due(self) -> Optional[float]:
        if not self._lost:
            return None
        return max(min(at for at, _ in self._lost.values()) - time.monotonic(), 0.0)

    def _try(self, index: int) -> bool:
        group = self._group()
        try:
            return group is None or group.connect_again(index, _LONGEST_STEP)
        except Exception:
            # Want of memory or of descriptors, for one, may be over at the next try, and without this thread there
            # would be none.
            return False


def _jitter(pause: float) -> float:
    return pause * random.uniform(0.75, 1.25)
