"""Buffers of every kind, as bytes and back. numpy is used only if the caller does."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from invoker.errors import InvalidArgument, ResourceExhausted

if TYPE_CHECKING:
    import numpy


def contiguous(data: Any) -> Any:
    """A contiguous copy of data that the native half could not use as it is, in C order; else a TypeError."""
    if isinstance(data, str):
        raise TypeError("data is a str, and calls take bytes: encode it first, as in data.encode()")
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(data, numpy.ndarray):
        if data.dtype.hasobject:
            raise TypeError("data is a numpy array of Python objects: give it a plain dtype first")
        if data.nbytes == 0:
            return b""
        return numpy.ascontiguousarray(data).reshape(-1).view(numpy.uint8)
    try:
        view = memoryview(data)
    except TypeError:
        raise TypeError(
            "data must be bytes-like (bytes, bytearray, memoryview, numpy array), not "
            + type(data).__name__
        ) from None
    with view:
        if "O" in view.format:
            raise TypeError("data holds Python objects: only plain bytes can be sent")
        return view.tobytes()


def byte_view(out: Any) -> memoryview:
    """The bytes of a writable, C-contiguous buffer, as a memoryview of format B."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(out, numpy.ndarray) and out.flags.c_contiguous:
        # memoryview cannot cast an array that is not in native byte order, or has no elements.
        if out.nbytes and not out.dtype.hasobject:
            out = out.reshape(-1).view(numpy.uint8)
    try:
        view = memoryview(out)
    except TypeError:
        view = None
    if view is None or view.readonly or not view.c_contiguous:
        raise TypeError("out= must be a writable, C-contiguous buffer (bytearray, numpy array)")
    if view.nbytes == 0:
        return memoryview(bytearray())
    if "O" in view.format:
        raise TypeError("out= must not hold Python objects: the response is plain bytes")
    return view.cast("B")


def plain_dtype(dtype: Any) -> numpy.dtype:
    """numpy's dtype for dtype=, which must be one that bytes can be read as."""
    import numpy

    result = numpy.dtype(dtype)
    if result.hasobject or result.itemsize == 0:
        raise TypeError("dtype=%s has no fixed size in bytes" % result)
    return result


def as_array(view: memoryview, dtype: numpy.dtype) -> numpy.ndarray:
    """The bytes as a 1-D array, without a copy."""
    import numpy

    if view.nbytes % dtype.itemsize:
        raise InvalidArgument(
            "the response has %d bytes, which is no whole number of %s (%d bytes each)"
            % (view.nbytes, dtype, dtype.itemsize),
            fate="executed",
        )
    return numpy.frombuffer(view, dtype)


def copy_into(target: memoryview, response: memoryview) -> memoryview:
    """Copies the response to the beginning of target, and returns that."""
    size = len(response)
    if size > len(target):
        raise ResourceExhausted(
            "the response has %d bytes, and out= has room for %d" % (size, len(target)),
            fate="executed",
        )
    target[:size] = response
    return target[:size]
