"""Function: a function of a worker, of bytes."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Optional

from invoker._native import _invoker

if TYPE_CHECKING:
    from invoker.client import Client


class Function(_invoker.BoundFunction):
    """A function of a worker, made by Client.function(). Calling it is Client.call() without a look-up.

    The arguments are those of Client's methods. Keeps its client alive, not open.
    """

    __slots__ = ("_client",)

    def __new__(cls, client: Client, handle: _invoker.RemoteFunction) -> Function:
        """For Client.function()."""
        function = super().__new__(cls, client._native, handle)
        function._client = client
        return function

    @property
    def name(self) -> str:
        """The function's name."""
        return self.handle.name

    def submit(
        self,
        data: Any = b"",
        *,
        timeout: Optional[float] = None,
        response_capacity: Optional[int] = None,
        out: Any = None,
        dtype: Any = None,
    ) -> Future:
        """As Client.submit()."""
        future = self._client._start(
            self.handle, data, timeout, response_capacity, out, dtype, may_block=True
        )
        assert future is not None
        return future

    async def acall(
        self,
        data: Any = b"",
        *,
        timeout: Optional[float] = None,
        response_capacity: Optional[int] = None,
        out: Any = None,
        dtype: Any = None,
    ) -> Any:
        """As Client.acall()."""
        return await self._client._acall(
            self.handle, data, timeout, response_capacity, out, dtype
        )

    def __repr__(self) -> str:
        return "<invoker.Function %s>" % self.name
