"""The executor's side of a Python call: a function of Python arguments, as one of bytes."""

from __future__ import annotations

import collections
import inspect
import os
import pickle
import resource
import secrets
import threading
import traceback
from typing import Any, Callable, Tuple

from invoker._pickle import frames

# Answers that callers have not fetched, all functions together. Beyond it the oldest go. Callers of some have given up.
_MOST_KEPT = 256
# The same in bytes: this, or a share of the memory that the process may have if that is more. The newest stay whatever their
# size, so that there is one for each call that a map has under way.
_MOST_BYTES = 64 << 20
_MEMORY_SHARE = 4
_ALWAYS_KEPT = 2


class Framed:
    """Calls a function with the arguments in a request's frame, and writes a frame of its result or exception.

    An answer that does not fit into the room for the response is kept until the caller has fetched it.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, request: memoryview, room: memoryview) -> int:
        """For the native half: the answer's length; -1 less than its negative if the function raised."""
        kind, value = _decode(request)
        if kind != frames.CALL:
            return _kept.fetch(*value, room)
        try:
            parts = self._run(*value)
        except BaseException as error:
            return -1 - _write(_raised_here(error), room)
        return _write(parts, room)

    async def acall(self, request: memoryview, room: memoryview) -> int:
        """The same of a coroutine function."""
        kind, value = _decode(request)
        if kind != frames.CALL:
            return _kept.fetch(*value, room)
        args, kwargs = value
        del value
        try:
            parts = frames.encode(frames.RETURNED, await self._function(*args, **kwargs))
        except BaseException as error:
            return -1 - _write(_raised_here(error), room)
        return _write(parts, room)

    def _run(self, args: tuple, kwargs: dict) -> frames.Parts:
        result = self._function(*args, **kwargs)
        if inspect.isgenerator(result) or inspect.iscoroutine(result):
            result.close()
            raise TypeError(
                "%s returned a %s, which cannot be sent: return what it yields, as a list or an array"
                % (getattr(self._function, "__qualname__", self._function), type(result).__name__)
            )
        return frames.encode(frames.RETURNED, result)


def _decode(request: memoryview) -> Tuple[int, Any]:
    try:
        return frames.decode(request)
    except frames.NoFrame as error:
        # This caller does not read frames either.
        raise ValueError(
            "a function of Python objects is called by remote(its name), and not by call(): %s" % error
        ) from None


def _write(parts: frames.Parts, room: memoryview) -> int:
    """Puts the frame into room, or one that says where it is kept. Returns its length."""
    size = frames.size_of(parts)
    if size > len(room):
        frame = bytearray(size)
        frames.write(parts, memoryview(frame))
        parts = frames.encode(frames.KEPT, (_kept.add(frame), size))
        if frames.size_of(parts) > len(room):
            return size
        size = frames.size_of(parts)
    frames.write(parts, room)
    return size


def _raised_here(error: BaseException) -> frames.Parts:
    """Without the line of the caller, which tells the reader nothing."""
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next
    return _raised(error)


def _raised(error: BaseException) -> frames.Parts:
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
    return frames.encode(frames.RAISED, (pickled, name, message, text))


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
