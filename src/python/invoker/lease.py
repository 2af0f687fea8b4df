"""Lease: executors of one's own on a worker."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Callable, Dict, List, Optional, Union

from invoker._calls import arguments
from invoker._native import _invoker
from invoker._pickle import shipping
from invoker._calls.leasing import Connecting
from invoker._calls.sessions import Place
from invoker.client import Client
from invoker.errors import FailedPrecondition, InvokerError
from invoker.group import Group
from invoker.remote_function import RemoteFunction
from invoker.usage import Usage


class Lease(Group):
    """Executors of one's own on a worker, made by Client.lease(). A context manager; close() gives them back.

    Each executor is a process that runs one call at a time; calls go to the one with the fewest under way. Functions are
    the worker's own, those of libraries that upload() brought, and Python functions that register() or function() did:

        with client.lease(executors=2) as lease:
            @lease.function
            def total(array):
                return array.sum()
            print(list(total.map(numpy.arange(n) for n in range(100))))
        print(lease.usage)

    A function that crashes, ends its process or breaks a limit ends the lease: calls under way fail with Aborted, whose
    message says what happened, and so do later ones. Nobody else's lease notices. Any thread.
    """

    def __init__(self, native: _invoker.NativeLease, connecting: Connecting) -> None:
        """For Client.lease()."""
        super().__init__([Client(executor) for executor in native.executors()])
        self._native = native
        self._server = connecting.server
        self._code_lock = threading.Lock()
        self._closed = _invoker.Event()
        self._usage: Optional[Usage] = None
        # Also runs when the interpreter exits.
        self._finalizer = weakref.finalize(self, _close, native, list(self._clients))

    def upload(self, path: Union[str, os.PathLike[str]]) -> List[str]:
        """Brings a shared library of functions to every executor, and returns the names of what is new there.

        It is of functions by src/invoke/function.h, or of rFaaS's signature. The worker keeps it by its content's hash, so
        one that it has already is not sent again. PermissionDenied where the worker takes none; FailedPrecondition for a
        file that cannot be loaded; AlreadyExists if a function's name is taken. Blocks without the GIL.
        """
        file = os.fspath(path)
        with open(file, "rb") as opened:
            content = opened.read()
        return self._load(content, False, os.path.basename(file))

    def register(
        self, function: Callable[..., Any], *, name: Optional[str] = None
    ) -> RemoteFunction:
        """Ships a Python function to every executor and returns it as one that runs there. Also a decorator, as function().

        What the function refers to goes along as it is now: what it closes over, globals that it uses, and other code of its
        own package unless that is installed. Modules are imported there, and have to be installed there.

        name: on the worker; None: the function's own, with a number if that is taken.

        FailedPrecondition if the lease has no Python executors; PermissionDenied where the worker takes no code.
        """
        if not callable(function):
            raise TypeError("%r is not callable" % (function,))
        if name is not None:
            arguments.text("name", name)
        content = shipping.dumps(function)
        with self._code_lock:
            chosen = name if name is not None else shipping.name_for(function, set(self.functions()))
            self._native.load(content, True, chosen)
        return RemoteFunction(self, chosen, function=function)

    def functions(self) -> List[str]:
        """The names of the functions that the executors have."""
        return self._native.function_names()

    def lease(self, *arguments: Any, **options: Any) -> Any:
        """Not possible: take another lease of the client."""
        raise FailedPrecondition("a lease leases nothing: take another one of the client")

    def capacity(self) -> Any:
        """Not possible: ask the client."""
        raise FailedPrecondition("a lease has nothing to lease: ask the client")

    def close(self) -> Usage:
        """Ends calls under way with Cancelled, gives the executors back, and returns the bill: also `usage` from then on.

        Blocks until the worker has ended the executors, for 20 s at most; then, or if the worker has gone, the bill is one
        that is not known (Usage.known). Again: returns the same; from another thread meanwhile: waits for it.
        """
        first = self._finalizer.detach() is not None
        if first:
            try:
                self._usage = _release(self._native)
            finally:
                self._closed.set()
            for client in self._clients:
                client.close()
        else:
            self._closed.wait()
        return self.usage

    @property
    def usage(self) -> Usage:
        """What the lease has used: so far, which takes a round trip to the server, or, once it is closed, its bill.

        What runs while it is asked for may not be counted yet. `cause` is "" unless the lease has ended.
        """
        if self._usage is None:
            return Usage(**self._native.usage())
        return self._usage

    @property
    def terms(self) -> Dict[str, Any]:
        """What was granted: "executors", "python", "memory" of each in bytes, "polling", and in seconds "hot_timeout",
        "ttl", "call_limit"."""
        return self._native.terms()

    @property
    def ended(self) -> Optional[InvokerError]:
        """None, or why the lease has ended: Aborted for what a function did or a limit, else Unavailable."""
        return self._native.ended()

    @property
    def server(self) -> str:
        """The worker's address."""
        return self._server

    def __repr__(self) -> str:
        if self._native.closed:
            return "<invoker.Lease closed>"
        return "<invoker.Lease of %d executors at %s>" % (len(self), self._server)

    def _take(self) -> Place:
        if self._native.closed:
            raise FailedPrecondition("the lease has been closed", fate="not_sent")
        return super()._take()

    def _load(self, content: bytes, python: bool, name: str) -> List[str]:
        with self._code_lock:
            before = set(self.functions())
            return [found for found in self._native.load(content, python, name) if found not in before]


def acquire(way: Connecting, terms: Dict[str, Any]) -> _invoker.NativeLease:
    """The native lease. Waiting in line is left to another thread, so that signals are seen meanwhile."""
    if terms["wait"] == 0 or threading.current_thread() is not threading.main_thread():
        return _invoker.lease(*way, terms)
    done = _invoker.Event()
    lock = threading.Lock()
    result: List[Any] = []
    abandoned: List[bool] = []

    def run() -> None:
        try:
            got: Any = _invoker.lease(*way, terms)
        except BaseException as error:
            got = error
        with lock:
            result.append(got)
            unwanted = bool(abandoned) and not isinstance(got, BaseException)
        done.set()
        if unwanted:
            got.release()

    try:
        threading.Thread(target=run, name="invoker-lease", daemon=True).start()
        done.wait()
    except BaseException:
        with lock:
            abandoned.append(True)
            late = [lease for lease in result if not isinstance(lease, BaseException)]
        for lease in late:
            lease.release()
        raise
    if isinstance(result[0], BaseException):
        raise result[0]
    return result[0]


def _release(native: _invoker.NativeLease) -> Usage:
    if native.forked:
        return Usage.unknown("the lease is the process's that took it")
    return Usage(**native.release())


def _close(native: _invoker.NativeLease, clients: List[Client]) -> None:
    _release(native)
    for client in clients:
        client.close()
