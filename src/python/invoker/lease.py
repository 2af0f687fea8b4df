"""Lease: executors of one's own on a worker."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional, Union

from invoker._calls import arguments
from invoker._calls.lease_calls import LeaseCalls
from invoker._calls.native_calls import NativeCalls
from invoker._native import array_types
from invoker.errors import FailedPrecondition, InvokerError
from invoker.group import Group
from invoker.reference import Reference
from invoker.remote_function import RemoteFunction
from invoker.server import Pickled
from invoker.typed import Typed, TypedFunction
from invoker.usage import Usage


class Lease(Group):
    """Executors of one's own, made by Client.lease() or Group.lease(). A context manager; close() gives them back.

    Each executor is a process. It runs one call at a time, but for functions with a concurrency and `async def` functions, which
    run beside its others. Calls go to the executor with the fewest under way. Functions are the worker's own, those of libraries
    that upload() brought, and Python functions that register() or function() did:

        with client.lease(executors=2) as lease:
            @lease.function
            def total(array):
                return array.sum()
            print(list(total.map(numpy.arange(n) for n in range(100))))
        print(lease.usage)

    A function that crashes, ends its process or breaks a limit ends the lease: calls under way fail with Aborted, whose
    message names the cause, and so do later ones. No other lease notices. Of a lease on several workers, the executors on
    that worker end, and the others go on. Any thread.
    """

    def __init__(self, calls: LeaseCalls, make_client: Callable[[NativeCalls], Any]) -> None:
        """For Client.lease()."""
        super().__init__(calls, make_client)
        self._calls: LeaseCalls = calls
        self._bill: Optional[Usage] = None

    def upload(self, path: Union[str, os.PathLike[str]]) -> List[str]:
        """Brings a shared library of functions to every executor, and returns the names of the functions that are new there.

        It is of functions by invoker/function.h, or of rFaaS's signature. The worker keeps it by its content's hash, so
        one that it has already is not sent again. PermissionDenied where the worker takes none; FailedPrecondition for a
        file that cannot be loaded; AlreadyExists if a function's name is taken. Blocks without the GIL.
        """
        return self._calls.upload(path)

    def register(self, function: Callable[..., Any], *, name: Optional[str] = None) -> Any:
        """Ships a Python function to every executor and returns it as one that runs there. Also a decorator, as function().

        Variables that it closes over, globals that it uses, and other code of its own package unless that is installed, go
        along as they are now. Modules are imported there, and have to be installed there.

        name: on the worker; None: the function's own, with a number if that is taken.

        One that was made by typed() becomes a TypedFunction, and any other a RemoteFunction. pickled() and typed() give it a
        concurrency, and an `async def` function runs beside the executor's others.
        FailedPrecondition if the lease has no Python executors; PermissionDenied where the worker takes no code.
        """
        there = self._calls.ship(function, name)
        if isinstance(function, Typed):
            return TypedFunction(self._calls, there, function.signature)
        local = function.function if isinstance(function, Pickled) else function
        return RemoteFunction(self._calls, there, function=local)

    def put(self, array: Any, *, timeout: Optional[float] = None) -> Reference:
        """Stores an array in the memory of every executor, for any number of calls to refer to: it is sent once to each.

        array: a numpy array of numbers or structs, of which functions get a view; anything else that is bytes-like, of which each
            call gets a copy, as bytes.
        timeout: seconds; None: none.

        A map over the executors with a large argument that all calls share:

            data = lease.put(samples)
            estimates = list(estimate.map(itertools.repeat(data, 1000), range(1000)))

        The array counts as memory of the executors. ResourceExhausted if it is more than one has room for: three quarters of
        its memory, less what is there already. TypeError for an array of anything else. Blocks without the GIL.
        """
        arguments.check_call(timeout, None)
        kind, shape, dtype = array_types.stored_type(array)
        return Reference(self._calls.lease.put(kind, array, timeout), shape, dtype)

    def functions(self) -> List[str]:
        """The names of the functions that the executors have."""
        return self._calls.lease.function_names()

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
        self._calls.close()
        self._bill = self.usage
        return self._bill

    @property
    def usage(self) -> Usage:
        """What the lease has used: so far, which takes a round trip to the server, or, once it is closed, its bill.

        What runs while it is asked for may not be counted yet. `cause` is "" unless the lease has ended.
        """
        if self._bill is not None:
            return self._bill
        usage = self._calls.usage()
        return Usage(**usage) if "calls" in usage else Usage.unknown(usage["reason"])

    @property
    def terms(self) -> Dict[str, Any]:
        """What was granted: "executors", "python", "memory" of each in bytes, "polling", and in seconds "hot_timeout",
        "ttl", "call_limit"."""
        return self._calls.lease.terms()

    @property
    def ended(self) -> Optional[InvokerError]:
        """None, or why the lease has ended: Aborted if a function crashed, ended its process or broke a limit, else Unavailable."""
        return self._calls.lease.ended()

    @property
    def server(self) -> str:
        """The worker's address; of several, separated by commas."""
        return ",".join(self._calls.lease.servers())

    def __repr__(self) -> str:
        if self._calls.native.closed:
            return "<invoker.Lease closed>"
        return "<invoker.Lease of %d executors at %s>" % (len(self), self.server)
