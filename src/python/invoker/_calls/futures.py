"""Futures of calls. A thread that waits for one drives its call, and completes it by itself."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from concurrent.futures import Future
from concurrent.futures._base import PENDING, RUNNING
from typing import Any, Callable, NamedTuple, Optional, Protocol

from invoker._calls.event_loops import LoopsOfClient
from invoker._native import _invoker
from invoker._native.fork import renew_locks_of

# What the rest of a call makes of its response.
Finish = Callable[[memoryview, int], Any]


class WaitedFuture(Future):
    """A future of which the main thread can wait for the result, and signal handlers run meanwhile (_invoker.Event)."""

    def __init__(self) -> None:
        super().__init__()
        # The main thread waits for this.
        self._over: Optional[_invoker.Event] = None
        # The first of all, so that no other keeps the main thread waiting.
        self.add_done_callback(_end_wait)

    def result(self, timeout: Optional[float] = None) -> Any:
        """Waits for the call's result. Raises the error it failed with, or TimeoutError after timeout seconds."""
        try:
            self._wait(timeout)
            return super().result(timeout)
        finally:
            # Like in any future: an exception refers to this frame, which must not refer to the exception.
            self = None  # type: ignore[assignment]

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        """Waits for the end of the call. Returns its error, or None; raises TimeoutError after timeout seconds."""
        self._wait(timeout)
        return super().exception(timeout)

    def _wait(self, timeout: Optional[float]) -> None:
        """For the end, on the main thread; leaves it to the caller on others."""
        if not self._is_open() or threading.get_ident() != threading.main_thread().ident:
            return
        over = self._over = self._over or _invoker.Event()
        # It may have ended before that, or be about to tell.
        if self._is_open() and not over.wait(timeout) and self._is_open():
            raise concurrent.futures.TimeoutError()

    def _is_open(self) -> bool:
        """Like not done(), without its lock: a signal handler's exception may leave that taken, and the call could not end."""
        return self._state in (PENDING, RUNNING)


def _end_wait(future: Future) -> None:
    assert isinstance(future, WaitedFuture)
    if future._over is not None:
        future._over.set()


class Watcher(Protocol):
    """What tells of the ends of calls: the dispatcher."""

    loops: LoopsOfClient

    def watch(self, call: _invoker.StartedCall, future: CallFuture) -> bool:
        """Has future.complete_watched() called at the end of the call. False, and it is not, if the call has ended."""


class _Outcome(NamedTuple):
    """How a call has ended."""

    value: Any = None
    error: Optional[BaseException] = None
    cancelled: bool = False


class _Watching:
    """Makes futures watched, one at a time: that is rare, and quick."""

    def renew_locks(self) -> None:
        self.lock = threading.RLock()


_watching = _Watching()
renew_locks_of(_watching)

# The attributes of concurrent.futures.Future. Futures that nobody watches have none of them.
_OF_WATCHED = ("_condition", "_state", "_result", "_exception", "_waiters", "_done_callbacks")


class CallFuture(Future):
    """The future of a call that has been started. Cancelling it ends the call for its caller, and the worker is told.

    The worker does not begin with a call that was cancelled before its turn came; a function that runs already may ask
    (invoker.cancelled()). Like any other future, one that has ended cannot be cancelled.

    A future is light at first: the native call knows whether it has ended, and result() waits there. Somebody who wants to be
    told of the end (callbacks, concurrent.futures.wait()) makes it a watched one: then it has the state of a
    concurrent.futures.Future, too, and the dispatcher's thread completes that.
    """

    def __init__(self, call: Optional[_invoker.StartedCall], dispatcher: Watcher, finish: Optional[Finish] = None) -> None:
        """finish makes the result of the response and the number of its session, on the thread that asks for it first.

        No call: see failed().
        """
        self._call = call
        self.dispatcher = dispatcher
        self._finish = finish
        self._outcome: Optional[_Outcome] = None
        # The thread that has it runs finish.
        self._finishing = None if finish is None else threading.Lock()

    @classmethod
    def failed(cls, error: BaseException, dispatcher: Watcher) -> CallFuture:
        """The future of a call that could not be started."""
        future = cls(None, dispatcher)
        future._outcome = _Outcome(error=error)
        return future

    def result(self, timeout: Optional[float] = None) -> Any:
        """Waits for the call's result. Raises the error it failed with, or TimeoutError after timeout seconds."""
        try:
            outcome = self._outcome or self._await(timeout)
            if outcome.error is not None:
                raise outcome.error
            if outcome.cancelled:
                raise concurrent.futures.CancelledError()
            return outcome.value
        finally:
            # Like in any future: an exception refers to this frame, which must not refer to the exception.
            self = outcome = None  # type: ignore[assignment]

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        """Waits for the end of the call. Returns its error, or None; raises TimeoutError after timeout seconds."""
        outcome = self._outcome or self._await(timeout)
        if outcome.cancelled:
            raise concurrent.futures.CancelledError()
        return outcome.error

    def done(self) -> bool:
        """Whether the call has ended."""
        return self._ended() is not None

    def running(self) -> bool:
        """Whether the call is under way."""
        return not self.done()

    def cancelled(self) -> bool:
        """Whether the call was cancelled."""
        outcome = self._ended()
        return outcome is not None and outcome.cancelled

    def cancel(self) -> bool:
        """Cancels the call, unless it has ended. True if it is cancelled."""
        call = self._call
        if self._outcome is None and call is not None and call.cancel():
            self._settle(_Outcome(cancelled=True))
            if "_condition" in self.__dict__:
                self._show(self._outcome)
        return self._outcome is not None and self._outcome.cancelled

    def add_done_callback(self, fn: Callable[[Future], Any]) -> None:
        """Has fn(future) called when the call has ended: on the thread of its client, or here and now if it has."""
        self._become_watched()
        super().add_done_callback(fn)

    def watch(self, queue: _invoker.EndedQueue, token: int) -> None:
        """Has the token pushed to the queue at the call's end. Once, and instead of anything that makes it a watched one."""
        if self._outcome is not None or self._call is None or not self._call.watch(queue, token):
            queue.push(token)

    @property
    def call(self) -> Optional[_invoker.StartedCall]:
        """The native call; None if it could not be started."""
        return self._call

    def __getattr__(self, name: str) -> Any:
        if name not in _OF_WATCHED:
            raise AttributeError(name)
        self._become_watched()
        return self.__dict__[name]

    def _await(self, timeout: Optional[float]) -> _Outcome:
        call = self._call
        assert call is not None
        if not call.wait(timeout):
            raise concurrent.futures.TimeoutError()
        outcome = self._complete()
        assert outcome is not None
        return outcome

    def _ended(self) -> Optional[_Outcome]:
        """How the call has ended; None if it has not."""
        if self._outcome is None and self._call is not None and self._call.ended():
            # Another thread may be about to make the result.
            return self._complete(blocking=False)
        return self._outcome

    def complete_watched(self) -> None:
        """Tells who watches the future, whose call has ended. On the dispatcher's thread, which runs the callbacks."""
        self._show(self._complete())

    def _complete(self, blocking: bool = True) -> Optional[_Outcome]:
        """The outcome of the call, which has ended: makes it, unless another thread has. None if that one is about to."""
        finishing = self._finishing
        if finishing is None:
            return self._outcome or self._settle(self._made())
        if not finishing.acquire(blocking):
            return None
        try:
            return self._outcome or self._settle(self._made())
        finally:
            finishing.release()

    def _made(self) -> _Outcome:
        call = self._call
        assert call is not None
        if call.cancelled():
            return _Outcome(cancelled=True)
        value = call.value()
        if isinstance(value, BaseException):
            return _Outcome(error=value)
        finish = self._finish
        if finish is None:
            return _Outcome(value)
        try:
            return _Outcome(finish(value, call.session))
        except Exception as error:
            return _Outcome(error=error)

    def _settle(self, outcome: _Outcome) -> _Outcome:
        # The first one counts.
        self._outcome = outcome = self._outcome or outcome
        # It may refer to what the call has kept.
        self._finish = None
        return outcome

    def _become_watched(self) -> None:
        with _watching.lock:
            if "_condition" in self.__dict__:
                return
            super().__init__()
            if self._outcome is not None:
                self._show(self._outcome)
                return
        assert self._call is not None
        if not self.dispatcher.watch(self._call, self):
            self.complete_watched()

    def _show(self, outcome: Optional[_Outcome]) -> None:
        """Completes what a watched future has of concurrent.futures.Future, once."""
        assert outcome is not None
        shown = object()
        if self.__dict__.setdefault("_shown", shown) is not shown:
            return
        if outcome.cancelled:
            super().cancel()
            # For as_completed() and wait().
            self.set_running_or_notify_cancel()
        elif outcome.error is not None:
            self.set_exception(outcome.error)
        else:
            self.set_result(outcome.value)


async def result_of(begin: Callable[[bool], Optional[CallFuture]]) -> Any:
    """The result of the call that begin(may_block) starts, from asyncio; begin gives None if it would block and may not.

    Cancelling the task cancels the call.
    """
    future = begin(False)
    if future is not None:
        return await end_of(future)
    waiting = asyncio.get_running_loop().run_in_executor(None, begin, True)
    try:
        future = await asyncio.shield(waiting)
    except asyncio.CancelledError:
        waiting.add_done_callback(_cancel_started)
        raise
    assert future is not None
    return await end_of(future)


async def end_of(future: CallFuture) -> Any:
    """The result of a call that nobody watches, from asyncio. Cancelling the task cancels the call."""
    if future.call is not None:
        await future.dispatcher.loops.end_of(future.call)
    return future.result()


def _cancel_started(waiting: "asyncio.Future[Optional[CallFuture]]") -> None:
    if not waiting.cancelled() and waiting.exception() is None:
        future = waiting.result()
        assert future is not None
        future.cancel()
