"""References to stored arrays in pickles: what they are on both sides."""

from __future__ import annotations

import threading
from typing import Any, List

from invoker._native import _invoker, event_loop


class _Noted(threading.local):
    """By thread: the references that were pickled since the last take()."""

    def __init__(self) -> None:
        self.references: List[Any] = []


_noted = _Noted()


def note(reference: Any) -> None:
    """This one is being pickled."""
    _noted.references.append(reference)


def take() -> List[Any]:
    """Those that were pickled on this thread since the last time."""
    taken = _noted.references
    if taken:
        _noted.references = []
    return taken


def find(reference: bytes) -> Any:
    """What a pickled reference is where it is unpickled: the array, in a function that an executor of the lease runs."""
    call = event_loop.current.get()
    return _invoker.find_array(reference) if call is None else call.find_array(reference)
