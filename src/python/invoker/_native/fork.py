"""Locks of a forked process. A thread of its parent may hold one, and is not there to give it back."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class HasLocks(Protocol):
    """An object with locks that are taken before native code can say that the process was forked."""

    def renew_locks(self) -> None:
        """Makes them."""


_owners: weakref.WeakSet[HasLocks] = weakref.WeakSet()


def renew_locks_of(owner: HasLocks) -> None:
    """Has owner make its locks, now and in each process that is forked from now on."""
    owner.renew_locks()
    _owners.add(owner)


def _renew_all() -> None:
    for owner in list(_owners):
        owner.renew_locks()


os.register_at_fork(after_in_child=_renew_all)
