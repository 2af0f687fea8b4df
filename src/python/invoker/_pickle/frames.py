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
from typing import Any, List, Tuple

CALL, FETCH, RETURNED, RAISED, KEPT = range(1, 6)


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
