"""LeaseCalls: the executors of a lease, called as one."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Callable, Dict, List, Optional, Union

from invoker._calls import arguments
from invoker._calls.members import Place
from invoker._calls.session import Session
from invoker._calls.session_group import SessionGroup
from invoker._native import _invoker
from invoker._pickle import shipping
from invoker.errors import FailedPrecondition


class LeaseCalls(SessionGroup):
    """The calls of a Lease, and its code. It gives the lease back when nothing refers to it any more. Any thread."""

    def __init__(self, native: _invoker.NativeLease, server: str) -> None:
        super().__init__([Session(executor) for executor in native.executors()])
        self.native = native
        self.server = server
        self._code_lock = threading.Lock()
        self._closed = _invoker.Event()
        self._bill: Optional[Dict[str, Any]] = None
        # Also runs when the interpreter exits.
        self._finalizer = weakref.finalize(self, _close, native, list(self.sessions))

    def is_over(self) -> bool:
        """Whether the lease cannot be used any more: closed, or ended by itself."""
        return self.native.closed or self.native.ended() is not None

    def upload(self, path: Union[str, os.PathLike[str]]) -> List[str]:
        """Like Lease.upload()."""
        file = os.fspath(path)
        with open(file, "rb") as opened:
            content = opened.read()
        with self._code_lock:
            before = set(self.native.function_names())
            loaded = self.native.load(content, False, os.path.basename(file))
            return [found for found in loaded if found not in before]

    def ship(self, function: Callable[..., Any], name: Optional[str]) -> str:
        """Like Lease.register(). Returns the function's name on the executors."""
        if not callable(function):
            raise TypeError("%r is not callable" % (function,))
        if name is not None:
            arguments.text("name", name)
        content = shipping.dumps(function)
        with self._code_lock:
            if name is None:
                name = shipping.name_for(function, set(self.native.function_names()))
            self.native.load(content, True, name)
        return name

    def usage(self) -> Dict[str, Any]:
        """The fields of invoker.Usage: so far, which takes a round trip to the worker, or the bill once it is closed."""
        return self.native.usage() if self._bill is None else self._bill

    def close(self) -> None:
        """Like Lease.close()."""
        if self._finalizer.detach() is None:
            self._closed.wait()
            return
        try:
            self._bill = _release(self.native)
        finally:
            self._closed.set()
        for session in self.sessions:
            session.close()

    def take(self) -> Place:
        if self.native.closed:
            raise FailedPrecondition("the lease has been closed", fate="not_sent")
        return super().take()


def _release(native: _invoker.NativeLease) -> Dict[str, Any]:
    """The bill; without numbers in a forked process, whose parent has the lease."""
    if native.forked:
        return {"cause": "unknown", "reason": "the lease is the process's that took it"}
    return native.release()


def _close(native: _invoker.NativeLease, sessions: List[Session]) -> None:
    _release(native)
    for session in sessions:
        session.close()
