"""Reference: an array in the memory of a lease's executors."""

from __future__ import annotations

from typing import Any, Optional, Tuple

from invoker._native import _invoker
from invoker._pickle import references


class Reference:
    """An array that Lease.put() has stored in every executor of the lease, for arguments of calls there. Any thread.

    A function gets the array in its place, as a read-only view of the executor's memory: typed functions whose signature has
    such an array there, and Python functions for a reference anywhere among their arguments.

    The executors free the array by free(), when nothing refers to the Reference any more, calls under way included, and when
    the lease ends. A function that keeps a view keeps the memory.
    """

    __slots__ = ("_native_reference", "_shape", "_dtype", "__weakref__")

    def __init__(self, native: _invoker.NativeReference, shape: Tuple[int, ...], dtype: Any) -> None:
        """For Lease.put()."""
        self._native_reference = native
        self._shape = shape
        self._dtype = dtype

    @property
    def type(self) -> str:
        """What the array is in a signature: "f64[:, :]"."""
        return self._native_reference.type

    @property
    def shape(self) -> Tuple[int, ...]:
        """The array's."""
        return self._shape

    @property
    def dtype(self) -> Any:
        """The array's, of numpy; None if it was no array, but bytes."""
        return self._dtype

    @property
    def nbytes(self) -> int:
        """In each executor."""
        return self._native_reference.bytes

    @property
    def freed(self) -> bool:
        """Whether free() has been called."""
        return self._native_reference.freed

    def free(self) -> None:
        """Frees the array in every executor. Does not block. A call that arrives there afterwards fails."""
        self._native_reference.free()

    def __reduce__(self) -> Tuple[Any, ...]:
        if self.freed:
            raise ValueError("the reference has been freed")
        references.note(self)
        return references.find, (self._native_reference.id,)

    def __repr__(self) -> str:
        state: Optional[str] = ", freed" if self.freed else ""
        return "<invoker.Reference to %s, shape %s%s>" % (self.type, self._shape, state)
