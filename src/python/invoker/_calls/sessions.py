"""Sessions of a Group."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Set

if TYPE_CHECKING:
    from invoker.client import Client


class Session:
    """One session with one of the group's servers, and what is known of it. Under the group's lock.

    Another one may follow it while calls of it are still under way: a callback may be waiting for just that. They stay
    calls of this one.
    """

    def __init__(self, index: int, client: Client) -> None:
        self.index = index
        self.client = client
        # The places of the group's calls. Each reference takes itself out when its place goes, at any time and without the
        # lock: so a signal's exception between any two steps of a call leaves no place taken for ever.
        self.under_way: Set[weakref.ref[Place]] = set()
        # Its worker has gone, or takes no more calls.
        self.gone = False
        self.followed = False


class Place:
    """A call's place at a session: it counts there until it leaves, or is referred to no more."""

    __slots__ = ("session", "_reference", "__weakref__")

    def __init__(self, session: Session) -> None:
        self.session = session
        self._reference = weakref.ref(self, session.under_way.discard)
        session.under_way.add(self._reference)

    def leave(self) -> None:
        """Under the group's lock."""
        self.session.under_way.discard(self._reference)
