"""The thread of a Group that connects again to workers that were lost."""

from __future__ import annotations

import random
import threading
import time
import weakref
from typing import TYPE_CHECKING, Dict, List, Tuple

if TYPE_CHECKING:
    from invoker.client import Client
    from invoker.group import Group

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 1.0
# Of one step of a try: whoever closes the group waits for it.
_LONGEST_STEP = 1.0


class Reconnector:
    """Tries each lost session's worker after 0.1 s, then after twice as long each time, up to a second.

    Waits for no callback of a future, since that may be waiting for a worker to be back.

    Refers to the group weakly, so that one that nobody refers to any more can go.
    """

    def __init__(self, group: Group) -> None:
        self._group = weakref.ref(group)
        self._changed = threading.Condition()
        # Under the condition's lock: by session, when to try next, and the pause after that.
        self._lost: Dict[int, Tuple[float, float]] = {}
        # Under the lock too: what has been replaced, and nobody uses any more.
        self._unused: List[Client] = []
        self._stopping = False
        self._thread: threading.Thread = threading.Thread(
            target=self._run, name="invoker-reconnect", daemon=True
        )
        self._started = False

    def lost(self, index: int) -> None:
        """The session has been lost."""
        with self._changed:
            if self._stopping or index in self._lost:
                return
            self._lost[index] = (time.monotonic() + _jitter(_FIRST_PAUSE), 2 * _FIRST_PAUSE)
            if not self._started:
                self._started = True
                self._thread.start()
            self._changed.notify()

    def unused(self, client: Client) -> None:
        """The client has been replaced, and no call uses it any more: it is closed, except for callbacks."""
        with self._changed:
            self._unused.append(client)
            self._changed.notify()

    def stop(self) -> None:
        """Ends the thread; waits for a try that is under way."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
            started = self._started
        if started and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._stopping and not self._unused and not self._due():
                    if self._group() is None:
                        return
                    self._changed.wait(self._until_due())
                if self._stopping:
                    return
                if self._unused:
                    unused = self._unused.pop()
                else:
                    unused = None
                    index = self._due()[0]
                    # Taken out: who reports it during the try means another loss.
                    pause = self._lost.pop(index)[1]
            if unused is not None:
                unused._let_go()
                del unused
                continue
            group = self._group()
            if group is None:
                return
            done = self._try(group, index)
            del group
            with self._changed:
                if not done:
                    self._lost[index] = (
                        time.monotonic() + _jitter(pause),
                        min(2 * pause, _LONGEST_PAUSE),
                    )

    def _due(self) -> List[int]:
        now = time.monotonic()
        return [index for index, (at, _) in self._lost.items() if at <= now]

    def _until_due(self) -> float:
        # A group that nobody refers to ends the thread at the next look.
        if not self._lost:
            return _LONGEST_PAUSE
        return max(min(at for at, _ in self._lost.values()) - time.monotonic(), 0.0)

    def _try(self, group: Group, index: int) -> bool:
        try:
            return group._connect_again(index, _LONGEST_STEP)
        except Exception:
            # Whatever it is, such as want of memory or of descriptors: it may be over at the next try, and without this
            # thread there would be none.
            return False


def _jitter(pause: float) -> float:
    return pause * random.uniform(0.75, 1.25)
