"""Python calls as bytes: a pickle, and beside it the memory of arrays.

A frame is, from its first byte:

    magic     4 bytes, "INVP"
    version   1 byte, 1
    kind      1 byte: CALL, FETCH (requests); RETURNED, RAISED, KEPT (answers)
    zero      2 bytes
    count     4 bytes: buffers
    zero      4 bytes
    lengths   8 bytes each: of the pickle, and of each buffer
    pickle    at the next multiple of 64
    buffers   each at the next multiple of 64

all little-endian. The pickle has protocol 5, and its out-of-band buffers are the frame's, in order. So an array is copied once
on its way into a frame, and arrays that come out of one are views of the frame's memory.

    CALL      (args, kwargs)
    RETURNED  the result
    RAISED    (pickled exception or None, its type's name, its message, its traceback as text)
    KEPT      (ticket, size): the answer is a frame of that size, for which the caller had made no room. It is fetched by
    FETCH     (ticket, offset, size): the answer is that part of the kept frame, bare; the last part ends the keeping

Unpickling a frame runs code of the sender's choice. So a worker must trust its callers as it does with any function they may
call, and a caller must trust its workers.
"""

from __future__ import annotations

import io
import pickle
import struct
from typing import Any, List, Tuple

from invoker._pickle import references

CALL, FETCH, RETURNED, RAISED, KEPT = range(1, 6)

ALIGNMENT = 64
# Every caller makes at least this much room: more than a KEPT frame has.
SMALLEST_ROOM = 512

_MAGIC = b"INVP"
_VERSION = 1
_HEAD = struct.Struct("<4sBBxxIxxxx")
_LENGTH = struct.Struct("<Q")


class Parts(List[Any]):
    """The parts of a frame."""

    # What the value refers to, to be kept until the call has ended.
    references: List[Any]


class NoFrame(ValueError):
    """Bytes that are no frame."""


def encode(kind: int, value: Any) -> Parts:
    """The parts of a frame, each to be put at the next multiple of ALIGNMENT. Refers to the value's memory."""
    references.take()
    data, buffers = dumps(value)
    head = _HEAD.pack(_MAGIC, _VERSION, kind, len(buffers))
    lengths = struct.pack("<%dQ" % (1 + len(buffers)), len(data), *(b.nbytes for b in buffers))
    parts = Parts([head + lengths, data, *buffers])
    parts.references = references.take()
    return parts


def dumps(value: Any) -> Tuple[bytes, List[memoryview]]:
    """A pickle and its out-of-band buffers.

    What was defined in the program itself (__main__) or cannot be found by name (a lambda) goes by value, if cloudpickle is there.
    """
    buffers: List[pickle.PickleBuffer] = []
    try:
        data = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        by_value = b"__main__" in data
    except (pickle.PicklingError, AttributeError, TypeError):
        data, by_value = b"", True
    if by_value:
        try:
            import cloudpickle
        except ImportError:
            cloudpickle = None
        if cloudpickle is not None:
            buffers.clear()
            file = io.BytesIO()
            cloudpickle.CloudPickler(file, protocol=5, buffer_callback=buffers.append).dump(value)
            data = file.getvalue()
        elif not data:
            # Raises the first error.
            buffers.clear()
            data = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return data, [buffer.raw() for buffer in buffers]


def size_of(parts: Parts) -> int:
    """Bytes of the frame that the parts make."""
    size = 0
    for part in parts:
        size = _aligned(size) + len(part)
    return size


def write(parts: Parts, room: memoryview) -> None:
    """Puts the frame together at the beginning of room, which is large enough for it."""
    offset = 0
    for part in parts:
        begin = _aligned(offset)
        room[offset:begin] = bytes(begin - offset)
        offset = begin + len(part)
        room[begin:offset] = part


def decode(frame: memoryview) -> Tuple[int, Any]:
    """The frame's kind and value, whose arrays are views of the frame's memory, and read-only if that is.

    NoFrame if this is none.
    """
    if len(frame) < _HEAD.size + _LENGTH.size:
        raise NoFrame("%d bytes are too few for a frame of a Python call" % len(frame))
    magic, version, kind, count = _HEAD.unpack_from(frame)
    if magic != _MAGIC:
        raise NoFrame("these bytes are no frame of a Python call: the other side speaks another convention")
    if version != _VERSION:
        raise NoFrame("the frame has version %d, and this side speaks version %d" % (version, _VERSION))
    end = _HEAD.size + _LENGTH.size * (1 + count)
    if end > len(frame):
        raise NoFrame("the frame is cut short: %d buffers in %d bytes" % (count, len(frame)))
    pieces = []
    for (length,) in _LENGTH.iter_unpack(frame[_HEAD.size : end]):
        begin = _aligned(end)
        end = begin + length
        if end > len(frame):
            raise NoFrame("the frame is cut short: it has %d bytes, and needs %d" % (len(frame), end))
        pieces.append(frame[begin:end])
    return kind, pickle.loads(pieces[0], buffers=pieces[1:])


def _aligned(offset: int) -> int:
    return (offset + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
