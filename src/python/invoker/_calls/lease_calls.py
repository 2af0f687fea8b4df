"""LeaseCalls: the executors of a lease, called as one."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Callable, Dict, List, Optional, Union

from invoker._calls import arguments
from invoker._calls.dispatch import Dispatcher
from invoker._calls.frame_calls import Native
from invoker._calls.native_calls import NativeCalls, end_calls
from invoker._native import _invoker
from invoker._pickle import shipping


class LeaseCalls(NativeCalls):
    """The calls of a Lease, and its code. It gives the lease back when nothing refers to it any more. Any thread."""

    def __init__(self, lease: _invoker.NativeLease) -> None:
        super().__init__(lease.group())
        self.lease = lease
        self._code_lock = threading.Lock()
        self._closed = _invoker.Event()
        self._bill: Optional[Dict[str, Any]] = None
        # In place of the other one. Also runs when the interpreter exits.
        self._finalizer.detach()
        self._finalizer = weakref.finalize(
            self, _close, self.native, self.bound, lease, self.dispatcher
        )

    def is_over(self) -> bool:
        """Whether the lease cannot be used any more: closed, or ended by itself."""
        return self.native.closed or self.lease.closed or self.lease.ended() is not None

    def upload(self, path: Union[str, os.PathLike[str]]) -> List[str]:
        """Like Lease.upload()."""
        file = os.fspath(path)
        with open(file, "rb") as opened:
            content = opened.read()
        with self._code_lock:
            before = set(self.lease.function_names())
            loaded = self.lease.load(content, False, os.path.basename(file))
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
                name = shipping.name_for(function, set(self.lease.function_names()))
            self.lease.load(content, True, name)
        return name

    def usage(self) -> Dict[str, Any]:
        """The fields of invoker.Usage: so far, which takes a round trip to the worker, or the bill once it is closed."""
        return self.lease.usage() if self._bill is None else self._bill

    def close(self) -> None:
        """Like Lease.close()."""
        if self._finalizer.detach() is None:
            self._closed.wait()
            return
        try:
            end_calls(self.native, self.bound)
            self._bill = _release(self.lease)
        finally:
            self._closed.set()
        # A callback that this waits for may close the lease again.
        self.dispatcher.stop()


def _release(lease: _invoker.NativeLease) -> Dict[str, Any]:
    """The bill; without numbers in a forked process, whose parent has the lease."""
    if lease.forked:
        return {"cause": "unknown", "reason": "the lease is the process's that took it"}
    return lease.release()


def _close(
    native: Native,
    bound: Dict[str, _invoker.BoundFunction],
    lease: _invoker.NativeLease,
    dispatcher: Dispatcher,
) -> None:
    end_calls(native, bound)
    _release(lease)
    dispatcher.stop()
