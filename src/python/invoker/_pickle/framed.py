"""The executor's side of a Python call, for the native half: exceptions, and answers that do not fit."""

from __future__ import annotations

import collections
import os
import pickle
import resource
import secrets
import threading
import traceback
from typing import Any, Callable, NoReturn, Optional, Tuple

from invoker._pickle import frames

# Answers that callers have not fetched, all functions together. Beyond it the oldest go. Callers of some have given up.
_MOST_KEPT = 256
# The same in bytes: this, or a share of the memory that the process may have if that is more. The newest stay whatever their
# size, so that there is one for each call that a map has under way.
_MOST_BYTES = 64 << 20
_MEMORY_SHARE = 4
_ALWAYS_KEPT = 2


def raised(error: BaseException) -> Tuple[Optional[bytes], str, str, str]:
    """What a RAISED frame holds of an exception."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    name = "%s.%s" % (type(error).__module__, type(error).__qualname__)
    pickled = None
    # Others would end the caller, or a loop of the caller's.
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        try:
            pickled = b"".join(frames.dumps(error)[:1])
            # Some can be pickled and not be made again.
            pickle.loads(pickled)
        except BaseException:
            pickled = None
    try:
        message = str(error)
    except BaseException:
        message = "(its message cannot be had)"
    return pickled, name, message, text


def keep(frame: bytearray) -> Tuple[int, int]:
    """Keeps the frame of an answer, until its caller has fetched it. What a KEPT frame holds of it."""
    return _kept.add(frame), len(frame)


def fetch(request: Tuple[int, int, int], room: memoryview) -> int:
    """Puts a part of a kept frame into room, as a FETCH frame asks for it. Returns its length."""
    return _kept.fetch(*request, room)


def refuse(function: Callable[..., Any], result: Any) -> NoReturn:
    """Says of a generator or a coroutine that a function has returned that it cannot be sent."""
    result.close()
    raise TypeError(
        "%s returned a %s, which cannot be sent: return what it yields, as a list or an array"
        % (getattr(function, "__qualname__", function), type(result).__name__)
    )


class _Kept:
    """Frames that wait for their callers. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._frames: collections.OrderedDict[int, bytearray] = collections.OrderedDict()
        self._bytes = 0

    def add(self, frame: bytearray) -> int:
        ticket = secrets.randbits(63)
        with self._lock:
            self._frames[ticket] = frame
            self._bytes += len(frame)
            while len(self._frames) > _MOST_KEPT or (
                len(self._frames) > _ALWAYS_KEPT and self._bytes > _MOST_BYTES and self._bytes > _share()
            ):
                self._bytes -= len(self._frames.popitem(last=False)[1])
        return ticket

    def fetch(self, ticket: int, offset: int, size: int, room: memoryview) -> int:
        with self._lock:
            frame = self._frames.get(ticket)
        if frame is None:
            raise LookupError("the answer was not fetched in time, and is no longer kept")
        if size < 0 or not 0 <= offset <= len(frame):
            raise ValueError("%d bytes at %d are no part of an answer of %d" % (size, offset, len(frame)))
        size = min(size, len(frame) - offset, len(room))
        with memoryview(frame) as view:
            room[:size] = view[offset : offset + size]
        if offset + size == len(frame):
            with self._lock:
                if self._frames.pop(ticket, None) is not None:
                    self._bytes -= len(frame)
        return size


def _share() -> int:
    """Bytes of the memory that this process may have: its share for answers."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY:
        memory = min(memory, limit)
    try:
        with open("/proc/self/cgroup") as groups:
            group = next(line[3:].strip() for line in groups if line.startswith("0::"))
        with open("/sys/fs/cgroup%s/memory.max" % group) as most:
            memory = min(memory, int(most.read()))
    except (OSError, ValueError, StopIteration):
        # No such limit, or none that can be read here.
        pass
    return memory // _MEMORY_SHARE


_kept = _Kept()
