"""Calls from asyncio: how an event loop learns of their ends.

While calls end every few microseconds, the loop drives them by itself, between its other work. When none has ended for a
while, a thread of the client's drives, and wakes the loop by a descriptor, once for all that have ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
import weakref
from typing import Dict, List, Optional

from invoker._native import _invoker

# Seconds: for which the loop drives at a time, for a task that makes one call after the other, and without any call's end until
# it leaves that to the thread.
_TURN = 2e-6
_TURN_FOR_ONE_TASK = 50e-6
_PATIENCE = 100e-6

# So many calls in a row may end before the loop comes to its other tasks.
_MOST_AT_ONCE = 128

# After a call that did not end within a turn, some do not try: the more, the more often that happened, but no more than these.
_MOST_WITHOUT_TRY = 31


class LoopCalls:
    """The calls of one client from one event loop. The loop's thread only. Does not keep the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._ended = _invoker.EndedQueue()
        self._tokens = itertools.count()
        self._waiting: Dict[int, "asyncio.Future[None]"] = {}
        self._driven: Optional[_invoker.StartedCall] = None
        self._patient_until = 0.0
        self._without_try = self._left_without_try = 0
        self._at_once = 0
        self._last_task: Optional[int] = None
        self._gathers = False  # another call waits since the loop has driven
        self._descriptor = self._ended.add_descriptor()
        loop.add_reader(self._descriptor, self._take)

    def leave(self, loop: asyncio.AbstractEventLoop) -> None:
        """The client has been closed, and its calls have ended."""
        self._take()
        loop.remove_reader(self._descriptor)

    def ends_at_once(self, call: _invoker.StartedCall) -> bool:
        """Whether a call that has just been started ends within microseconds."""
        task = id(asyncio.current_task())
        turn = _TURN_FOR_ONE_TASK
        if task != self._last_task:
            self._last_task, turn = task, _TURN
        self._at_once += 1
        if self._at_once > _MOST_AT_ONCE:
            self._at_once = 0
            return False
        if self._gathers:
            # Requests of many tasks leave together, if nobody drives in between.
            return call.ended()
        if self._left_without_try > 0:
            self._left_without_try -= 1
            return call.ended()
        if call.wait(turn):
            self._without_try >>= 1
            return True
        self._left_without_try = self._without_try = min(2 * self._without_try + 1, _MOST_WITHOUT_TRY)
        return False

    def end_of(self, loop: asyncio.AbstractEventLoop, call: _invoker.StartedCall) -> "asyncio.Future[None]":
        """Done when the call has ended. Cancel it to be told no more."""
        token = next(self._tokens)
        waiter = self._waiting[token] = loop.create_future()
        if not call.watch(self._ended, token):
            self._ended.push(token)
        self._patient_until = 0.0
        self._gathers = True
        if self._driven is None:
            self._driven = call
            self._ended.set_polled(True)
            loop.call_soon(self._drive)
        return waiter

    def _take(self) -> None:
        self._tell(self._ended.take())

    def _drive(self) -> None:
        loop, call = self._loop(), self._driven
        self._at_once, self._gathers = 0, False
        assert loop is not None and call is not None
        try:
            ended = self._ended.poll(call, _TURN)
        except BaseException:
            # A signal handler's.
            self._rest()
            raise
        now = time.monotonic()
        if ended or self._patient_until == 0.0:
            self._patient_until = now + _PATIENCE
        self._tell(ended)
        if self._waiting and now < self._patient_until:
            loop.call_soon(self._drive)
            return
        self._rest()
        if self._waiting:
            call.leave_to_helper()

    def _rest(self) -> None:
        self._driven = None
        self._ended.set_polled(False)

    def _tell(self, tokens: List[int]) -> None:
        for token in tokens:
            waiter = self._waiting.pop(token, None)
            if waiter is not None and not waiter.done():
                waiter.set_result(None)


class LoopsOfClient:
    """A client's calls from any event loop. Any thread."""

    def __init__(self) -> None:
        self._loops: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopCalls]" = weakref.WeakKeyDictionary()

    def leave(self) -> None:
        """The client has been closed, and its calls have ended."""
        for loop, calls in list(self._loops.items()):
            # A loop that has been closed has let go of it.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(calls.leave, loop)

    async def end_of(self, call: _invoker.StartedCall) -> None:
        """Returns when the call has ended, which has no other watcher. Cancelling the task cancels the call."""
        loop = asyncio.get_running_loop()
        calls = self._loops.get(loop)
        if calls is None:
            calls = self._loops[loop] = LoopCalls(loop)
        if calls.ends_at_once(call):
            return
        try:
            await calls.end_of(loop, call)
        except asyncio.CancelledError:
            call.cancel()
            raise
