"""The caller's side of a Python call: arguments into a frame, and the result out of one."""

from __future__ import annotations

import functools
import pickle
import time
from typing import Any, Dict, List, Optional, Union

from invoker._calls import arguments
from invoker._native import _invoker
from invoker._pickle import frames
from invoker._calls.dispatch import Dispatcher
from invoker._calls.futures import CallFuture
from invoker.errors import InvalidArgument, InvokerError, RemoteError, RemoteTraceback

Native = Union[_invoker.NativeClient, _invoker.NativeGroup]


class FrameCalls:
    """Calls functions of Python objects. Any thread.

    Refers to the native half only, so that it does not keep the calls.
    """

    def __init__(self, native: Native, dispatcher: Dispatcher) -> None:
        self._native = native
        self._dispatcher = dispatcher
        # The longest answer of each function for which there was no room. The next one may be as long.
        self._longest: Dict[_invoker.FunctionHandle, int] = {}

    def call(
        self,
        function: _invoker.FunctionHandle,
        args: tuple,
        kwargs: dict,
        timeout: Optional[float],
        response_capacity: Optional[int],
    ) -> Any:
        """Calls and waits."""
        arguments.check_call(timeout, response_capacity)
        deadline = _deadline(timeout)
        longest = self._longest.get(function, 0)
        kind, value, session = self._native.call_frame(function, (args, kwargs), timeout, response_capacity, longest)
        if kind == frames.RETURNED:
            return value
        return self._value(function, deadline, session, kind, value)

    def start(
        self,
        function: _invoker.FunctionHandle,
        frame: _invoker.Frame,
        timeout: Optional[float],
        response_capacity: Optional[int],
        may_block: bool,
    ) -> Optional[CallFuture]:
        """The future of a call with this frame, or None if it would have to wait for room and may not."""
        arguments.check_call(timeout, response_capacity)
        longest = self._longest.get(function, 0)
        return self._dispatcher.start(
            lambda: self._native.start_frame(function, frame, timeout, response_capacity, longest, may_block),
            functools.partial(self._result_of, frame.references, function, _deadline(timeout)),
        )

    def _result_of(self, references: List[Any], *answer: Any) -> Any:
        """_result(), of a call that has kept these until now."""
        return self._result(*answer)

    def _result(
        self,
        function: _invoker.FunctionHandle,
        deadline: Optional[float],
        answer: memoryview,
        session: int,
    ) -> Any:
        return self._value(function, deadline, session, *self._decode(function, answer))

    def _value(
        self, function: _invoker.FunctionHandle, deadline: Optional[float], session: int, kind: int, value: Any
    ) -> Any:
        """What a frame of an answer stands for."""
        if kind == frames.KEPT:
            try:
                whole = self._fetch(function, deadline, session, *value)
            except InvokerError as error:
                _settle_unfetched(function, error)
                raise
            kind, value = self._decode(function, whole)
        if kind == frames.RETURNED:
            return value
        if kind == frames.RAISED:
            raise _exception(*value)
        raise _not_of_objects(function, "a frame of kind %d" % kind if kind else value)

    def _decode(self, function: _invoker.FunctionHandle, answer: memoryview) -> tuple:
        try:
            return _invoker.decode_frame(answer)
        except ValueError as error:
            raise _not_of_objects(function, error) from None

    def _fetch(
        self,
        function: _invoker.FunctionHandle,
        deadline: Optional[float],
        session: int,
        ticket: int,
        size: int,
    ) -> memoryview:
        """The answer that the session's executor has kept, in pieces as large as the window takes, into fresh memory."""
        most = self._native.max_payload
        self._longest[function] = min(max(size, self._longest.get(function, 0)), most)
        whole = memoryview(bytearray(size))
        client = self._native.client_of(session)
        bound = _invoker.BoundFunction(client, client.function(function.name))
        offset = 0
        while offset < size:
            length = min(size - offset, most)
            request = bytes(_invoker.Frame(frames.FETCH, (ticket, offset, length)))
            target = whole[offset : offset + length]
            bound.call(request, _left(deadline), length, target, None, 0)
            offset += length
        return whole


def _settle_unfetched(function: _invoker.FunctionHandle, error: InvokerError) -> None:
    """Has the error of a call that was to fetch an answer tell of the function's own call, of which no answer has come."""
    error.args = ("%s has run, and its answer could not be fetched: %s" % (function.name, error),)
    if error.fate != "executed":
        error.fate = "maybe_executed"


def _not_of_objects(function: _invoker.FunctionHandle, answer: Any) -> InvalidArgument:
    return InvalidArgument(
        "the answer of %s is not that of a function of Python objects (call it by call()): %s"
        % (function.name, answer),
        fate="executed",
    )


def _deadline(timeout: Optional[float]) -> Optional[float]:
    return None if timeout is None else time.monotonic() + timeout


def _left(deadline: Optional[float]) -> Optional[float]:
    return None if deadline is None else max(deadline - time.monotonic(), 1e-9)


def _exception(pickled: Optional[bytes], type_name: str, message: str, text: str) -> BaseException:
    error: Any = None
    if pickled is not None:
        try:
            error = pickle.loads(pickled)
        except Exception:
            error = None
    if not isinstance(error, Exception):
        error = RemoteError("%s: %s" % (type_name, message), type_name=type_name)
    error.__cause__ = RemoteTraceback(text)
    return error
