"""The sessions of a SessionGroup, and the places of its calls there."""

from __future__ import annotations

import weakref
from typing import Set

from invoker._calls.session import Session


class Member:
    """One session of a group. Under the group's lock.

    Another one may follow it while calls of it are still under way, since a callback may wait for just that. Those calls
    stay calls of this one.
    """

    def __init__(self, index: int, session: Session) -> None:
        self.index = index
        self.session = session
        # The places of the group's calls. Each reference removes itself when its place goes, at any time and without the
        # lock. So a signal's exception between any two steps of a call leaves no place taken for ever.
        self.under_way: Set[weakref.ref[Place]] = set()
        # Its worker has gone, or takes no more calls.
        self.gone = False
        self.followed = False


class Place:
    """A call's place at a member. It counts there until it leaves, or until nothing refers to it any more."""

    __slots__ = ("member", "_reference", "__weakref__")

    def __init__(self, member: Member) -> None:
        self.member = member
        self._reference = weakref.ref(self, member.under_way.discard)
        member.under_way.add(self._reference)

    def leave(self) -> None:
        """Under the group's lock."""
        self.member.under_way.discard(self._reference)
