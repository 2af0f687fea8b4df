"""Calls: what a Client, a Group of them and a Lease have in common."""

from __future__ import annotations

import functools
from concurrent.futures import Future
from typing import Any, Iterable, Iterator, Optional

from invoker._pickle import frames
from invoker._calls import futures
from invoker._calls import mapping
from invoker.remote_function import RemoteFunction


class Calls:
    """Whatever functions can be called by."""

    def submit(self, name: str, data: Any = b"", **options: Any) -> Future:
        """As Client.submit()."""
        raise NotImplementedError

    def remote(
        self,
        name: str,
        *,
        timeout: Optional[float] = None,
        response_capacity: Optional[int] = None,
    ) -> RemoteFunction:
        """The Python function of that name, to call with Python objects: one that was served with pickled(), or registered.

        timeout, response_capacity: for its calls, as for Client.call().
        """
        return RemoteFunction(
            self, name, timeout=timeout, response_capacity=response_capacity
        )

    def map(
        self,
        name: str,
        inputs: Iterable[Any],
        *,
        ordered: bool = True,
        max_in_flight: Optional[int] = None,
        progress: Optional[mapping.Progress] = None,
        timeout: Optional[float] = None,
        response_capacity: Optional[int] = None,
        dtype: Any = None,
        retry: int = 0,
    ) -> Iterator[Any]:
        """The results of call(name, data) for each data of inputs, with several calls under way.

        ordered, max_in_flight, progress: as for RemoteFunction.map(). The rest: as for Client.call(), for each call.
        """
        submit = functools.partial(
            self.submit,
            name,
            timeout=timeout,
            response_capacity=response_capacity,
            dtype=dtype,
            retry=retry,
        )
        if max_in_flight is None:
            max_in_flight = self._default_in_flight()
        return mapping.run(
            submit,
            inputs,
            ordered=ordered,
            max_in_flight=max_in_flight,
            progress=progress,
        )

    # For RemoteFunction.

    def _default_in_flight(self) -> int:
        """Enough for every executor to have the next request while it runs one."""
        raise NotImplementedError

    def _call_remote(
        self,
        name: str,
        args: tuple,
        kwargs: dict,
        timeout: Optional[float],
        response_capacity: Optional[int],
    ) -> Any:
        raise NotImplementedError

    def _begin_remote(
        self,
        name: str,
        parts: frames.Parts,
        timeout: Optional[float],
        response_capacity: Optional[int],
        may_block: bool,
    ) -> Optional[Future]:
        """The future of a call with a CALL frame, or None if it would have to wait for room and may not."""
        raise NotImplementedError

    def _start_remote(
        self,
        name: str,
        args: tuple,
        kwargs: dict,
        timeout: Optional[float],
        response_capacity: Optional[int],
    ) -> Future:
        parts = frames.encode(frames.CALL, (args, kwargs))
        future = self._begin_remote(name, parts, timeout, response_capacity, True)
        assert future is not None
        return future

    async def _acall_remote(
        self,
        name: str,
        args: tuple,
        kwargs: dict,
        timeout: Optional[float],
        response_capacity: Optional[int],
    ) -> Any:
        parts = frames.encode(frames.CALL, (args, kwargs))
        return await futures.result_of(
            functools.partial(self._begin_remote, name, parts, timeout, response_capacity)
        )
