"""Caller: anything that functions can be called by."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, Optional

from invoker._calls import futures
from invoker._calls.futures import CallFuture
from invoker._native import _invoker
from invoker._pickle import frames


class RemoteCall(NamedTuple):
    """Which function of Python objects to call, and with which options."""

    name: str
    timeout: Optional[float] = None
    response_capacity: Optional[int] = None


class Caller:
    """Calls functions: over one session, over several, or by a lease that the first call takes. Any thread."""

    def executors(self) -> int:
        """How many there are now; at least one."""
        raise NotImplementedError

    def call_remote(self, call: RemoteCall, args: tuple, kwargs: dict) -> Any:
        """Calls a function of Python objects and waits for its result."""
        raise NotImplementedError

    def begin_remote(self, call: RemoteCall, frame: _invoker.Frame, may_block: bool) -> Optional[CallFuture]:
        """The future of a call with a CALL frame, or None if it would have to wait for room and may not."""
        raise NotImplementedError

    def start_remote(self, call: RemoteCall, args: tuple, kwargs: dict) -> CallFuture:
        """Starts a call of a function of Python objects."""
        future = self.begin_remote(call, _invoker.Frame(frames.CALL, (args, kwargs)), True)
        assert future is not None
        return future

    async def acall_remote(self, call: RemoteCall, args: tuple, kwargs: dict) -> Any:
        """Calls a function of Python objects from asyncio."""
        frame = _invoker.Frame(frames.CALL, (args, kwargs))
        return await futures.result_of(functools.partial(self.begin_remote, call, frame))
