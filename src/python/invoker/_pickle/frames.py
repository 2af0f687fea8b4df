"""What the frames of Python calls hold, which native/frames/frame.h lays out.

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
from typing import Any, List, Optional, Tuple

CALL, FETCH, RETURNED, RAISED, KEPT = range(1, 6)


def dumps(value: Any) -> Tuple[bytes, List[memoryview]]:
    """A pickle and its out-of-band buffers."""
    buffers: List[pickle.PickleBuffer] = []
    try:
        data = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    except (pickle.PicklingError, AttributeError, TypeError):
        return by_value(value, None, [])
    if b"__main__" in data:
        return by_value(value, data, buffers)
    return data, [buffer.raw() for buffer in buffers]


def by_value(
    value: Any, data: Optional[bytes], buffers: List[pickle.PickleBuffer]
) -> Tuple[bytes, List[memoryview]]:
    """dumps(), of a value that pickle alone does not do right: data and buffers are all that it gives.

    Something of the program itself (__main__), or something that cannot be found by name (a lambda), goes by value, if
    cloudpickle is there.
    """
    try:
        import cloudpickle
    except ImportError:
        cloudpickle = None
    if cloudpickle is not None:
        buffers = []
        file = io.BytesIO()
        cloudpickle.CloudPickler(file, protocol=5, buffer_callback=buffers.append).dump(value)
        data = file.getvalue()
    elif data is None:
        # Raises the first error again.
        buffers = []
        data = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return data, [buffer.raw() for buffer in buffers]
