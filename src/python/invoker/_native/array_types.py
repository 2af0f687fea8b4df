"""What arrays are in signatures."""

from __future__ import annotations

import sys
from typing import Any, Tuple

_NUMBERS = {"b": "bool", "i": "i", "u": "u", "f": "f", "c": "c"}


def stored_type(array: Any) -> Tuple[str, Tuple[int, ...], Any]:
    """The type of an array that is to be stored, its shape, and its dtype; of anything else that is bytes-like: None as dtype."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(array, numpy.generic):
        array = numpy.asarray(array)
    if numpy is not None and isinstance(array, numpy.ndarray):
        if array.ndim == 0 or array.ndim > 8:
            raise TypeError("an array of %d dimensions cannot be stored: it needs 1 to 8" % array.ndim)
        dimensions = ", ".join([":"] * array.ndim)
        return "%s[%s]" % (_element(array.dtype, array.dtype), dimensions), array.shape, array.dtype
    try:
        size = memoryview(array).nbytes
    except TypeError:
        raise TypeError(
            "expected a numpy array or something bytes-like, got %s" % type(array).__name__
        ) from None
    return "bytes", (size,), None


def _element(dtype: Any, whole: Any) -> str:
    if dtype.names is not None:
        fields = ["%s: %s" % (name, _field(dtype[name], whole)) for name in dtype.names]
        return "{%s}" % ", ".join(fields)
    name = _NUMBERS.get(dtype.kind)
    if name is None or not dtype.isnative:
        raise TypeError("an array of %s cannot be stored: it needs numbers of this machine, or structs of them" % (whole,))
    return name if name == "bool" else "%s%d" % (name, 8 * dtype.itemsize)


def _field(dtype: Any, whole: Any) -> str:
    if dtype.subdtype is None:
        return _element(dtype, whole)
    element, shape = dtype.subdtype
    if len(shape) != 1:
        raise TypeError("an array of %s cannot be stored: its fields may have one dimension" % (whole,))
    return "%s[%d]" % (_element(element, whole), shape[0])
