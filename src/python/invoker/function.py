"""Function: a function of bytes on workers. Functions: the ways to get at functions."""

from __future__ import annotations

import functools
import os
from concurrent.futures import Future
from typing import Any, Callable, Iterable, Iterator, List, Optional, Union, overload

from invoker._calls import arguments, mapping
from invoker._calls.futures import CallFuture
from invoker._calls.leasing import OnFirstUse, OwnLease
from invoker._calls.lease_calls import LeaseCalls
from invoker._calls.native_calls import NativeCalls
from invoker._native import _invoker
from invoker._pickle import shipping
from invoker.errors import InvokerError
from invoker.remote_function import RemoteFunction
from invoker.typed import Typed, TypedFunction


class Function(_invoker.BoundFunction):
    """A function of a worker, or of all workers of a group, made by function(). Calling it is call() without a look-up.

    The arguments are those of Client's methods. Keeps the sessions alive, not open.
    """

    __slots__ = ("_calls",)

    def __new__(cls, calls: NativeCalls, handle: _invoker.FunctionHandle) -> Function:
        """For Client.function() and Group.function()."""
        function = super().__new__(cls, calls.native, handle)
        function._calls = calls
        return function

    @property
    def name(self) -> str:
        """The function's name."""
        return self.handle.name

    def submit(self, data: Any = b"", **options: Any) -> Future:
        """Like Client.submit()."""
        if options:
            return self._calls.submit(self, data, **options)
        return self._begun(data)

    async def acall(self, data: Any = b"", **options: Any) -> Any:
        """Like Client.acall()."""
        call = None if options else self.begin(data, False)
        if call is None:
            return await self._calls.acall(self, data, **options)
        await self._calls.dispatcher.loops.end_of(call)
        value = call.value()
        if isinstance(value, BaseException):
            raise value
        return value

    def map(
        self,
        inputs: Iterable[Any],
        *,
        ordered: bool = True,
        max_in_flight: Optional[int] = None,
        progress: Optional[mapping.Progress] = None,
        **options: Any,
    ) -> Iterator[Any]:
        """Like RemoteFunction.map(), of data; the other options are those of Client.submit(), for each call."""
        return mapping.run(
            functools.partial(self._calls.submit, self, **options) if options else self._begun,
            inputs,
            executors=self._calls.executors,
            ordered=ordered,
            max_in_flight=max_in_flight,
            progress=progress,
        )

    def _begun(self, data: Any) -> CallFuture:
        """submit() without options."""
        dispatcher = self._calls.dispatcher
        try:
            return CallFuture(self.begin(data, True), dispatcher)
        except InvokerError as error:
            return dispatcher.not_started(error)

    def __repr__(self) -> str:
        return "<invoker.Function %s>" % self.name


class Functions:
    """Functions by their names, and Python functions to ship: the base of Client and Group."""

    def __init__(self, calls: NativeCalls, own_lease: Callable[[], LeaseCalls]) -> None:
        """own_lease: takes the lease for register() and upload()."""
        self._calls = calls
        self._bound = calls.bound
        self._own_lease = OwnLease(own_lease)

    def call(
        self,
        name: str,
        data: Any = b"",
        *,
        timeout: Optional[float] = None,
        response_capacity: Optional[int] = None,
        out: Any = None,
        dtype: Any = None,
        retry: int = 0,
    ) -> Any:
        """Calls the function and waits for its result.

        Waits without the GIL. On the main thread signal handlers run meanwhile, so Ctrl-C ends the wait
        within about 0.1 s and cancels the call, as cancel() on the future of submit() does.
        """
        bound = self._bound.get(name) or self._calls.bind(name)
        return bound.call(data, timeout, response_capacity, out, dtype, retry)

    def submit(
        self,
        name: str,
        data: Any = b"",
        *,
        timeout: Optional[float] = None,
        response_capacity: Optional[int] = None,
        out: Any = None,
        dtype: Any = None,
        retry: int = 0,
    ) -> Future:
        """Starts a call and returns the future of its result.

        Blocks, without the GIL, while the windows have no room. Data or out= larger than max_payload is registered, which
        takes a round trip. cancel() on the future ends the call for its caller at once: the worker is told, and does not
        begin with it if it has not yet; a function that runs already may ask (invoker.cancelled()). The thread that waits for
        the result drives the call. Callbacks run on one thread of this client or group, one after the other, and may make
        calls. out= is written when somebody learns from the future that the call has ended. An InvokerError is in the future, but an
        unknown name or a closed client raises here.
        """
        return self._calls.submit(
            self._calls.find(name),
            data,
            timeout=timeout,
            response_capacity=response_capacity,
            out=out,
            dtype=dtype,
            retry=retry,
        )

    async def acall(
        self,
        name: str,
        data: Any = b"",
        *,
        timeout: Optional[float] = None,
        response_capacity: Optional[int] = None,
        out: Any = None,
        dtype: Any = None,
        retry: int = 0,
    ) -> Any:
        """Calls the function from asyncio. Never blocks the event loop.

        Where submit() would block, a thread of the loop's executor does. Cancelling the task
        cancels the call, as cancel() on the future of submit() does.
        """
        return await self._calls.acall(
            self._calls.find(name),
            data,
            timeout=timeout,
            response_capacity=response_capacity,
            out=out,
            dtype=dtype,
            retry=retry,
        )

    @overload
    def function(self, function: str) -> Function: ...

    @overload
    def function(self, function: Callable[..., Any]) -> Any: ...

    def function(self, function: Union[str, Callable[..., Any]]) -> Any:
        """The function of that name, to call without looking it up each time; of a group, one that all workers have.

        With a Python function rather than a name, also as a decorator, the same as register().
        """
        if callable(function):
            return self.register(function)
        return Function(self._calls, self._calls.find(function).handle)

    def typed(self, name: str, signature: Optional[str] = None) -> TypedFunction:
        """The typed function of that name, to call with values; of a group, one that all workers have with one signature.

        signature: what the caller takes it for; None: whatever it is. InvalidArgument, with both, if it is another one.
        """
        return TypedFunction(self._calls, name, signature)

    def functions(self) -> List[str]:
        """The names of the worker's functions. A group lists the functions that every worker has."""
        return self._calls.native.function_names()

    @property
    def max_payload(self) -> int:
        """Largest payload of a request or a response that goes through the windows, of every session, in bytes."""
        return self._calls.native.max_payload

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
            self._calls, name, timeout=timeout, response_capacity=response_capacity
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
        return mapping.run(
            submit,
            inputs,
            executors=self._calls.executors,
            ordered=ordered,
            max_in_flight=max_in_flight,
            progress=progress,
        )

    def register(self, function: Callable[..., Any], *, name: Optional[str] = None) -> Any:
        """Ships a Python function to an executor and returns it as one that runs there. Also a decorator.

        The executor is one of this client's own: the first call of any function so registered leases it, with default terms
        (one executor, the worker's memory, limits and polling), and close() gives it back. If it has ended by itself, as it
        does when a function crashes, the next call leases another and ships the function again. For other terms, or more
        executors, use Lease.register().

        One that was made by typed() becomes a TypedFunction, and any other a RemoteFunction. A TypedFunction leases at once,
        and ends with that executor's lease.

        name: on the worker; None: the function's own.
        """
        if not callable(function):
            raise TypeError("%r is not callable" % (function,))
        if isinstance(function, Typed):
            lease = self._own_lease.get()
            return TypedFunction(lease, lease.ship(function, name), function.signature)
        own = shipping.name_for(function, ()) if name is None else arguments.text("name", name)
        return RemoteFunction(OnFirstUse(self._own_lease, function, name), own, function=function)

    def upload(self, path: Union[str, os.PathLike[str]]) -> Any:
        """Brings a shared library of functions to an executor of this client's own, as register() does.

        Returns its functions by name: a dict of Function, which end with that executor's lease: if that has ended by
        itself, upload again. Lease.upload() brings a library to the executors of a lease of yours.
        """
        lease = self._own_lease.get()
        return {name: Function(lease, lease.find(name).handle) for name in lease.upload(path)}

    def close(self) -> Any:
        """Gives back the lease that register() or upload() has taken."""
        self._own_lease.close()
