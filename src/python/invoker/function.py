"""Function and GroupFunction: functions of bytes on workers. Functions: the ways to get at functions."""

from __future__ import annotations

import functools
import os
from concurrent.futures import Future
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Union

from invoker._calls import arguments, mapping
from invoker._calls.caller import Caller
from invoker._calls.leasing import OnFirstUse, OwnLease
from invoker._calls.lease_calls import LeaseCalls
from invoker._calls.session import Session
from invoker._calls.session_group import SessionGroup
from invoker._native import _invoker
from invoker._pickle import shipping
from invoker.remote_function import RemoteFunction


class Function(_invoker.BoundFunction):
    """A function of a worker, made by Client.function(). Calling it is Client.call() without a look-up.

    The arguments are those of Client's methods. Keeps the client's session alive, not open.
    """

    __slots__ = ("_session",)

    def __new__(cls, session: Session, handle: _invoker.RemoteFunction) -> Function:
        """For Client.function()."""
        function = super().__new__(cls, session.native, handle)
        function._session = session
        return function

    @property
    def name(self) -> str:
        """The function's name."""
        return self.handle.name

    def submit(
        self,
        data: Any = b"",
        *,
        timeout: Optional[float] = None,
        response_capacity: Optional[int] = None,
        out: Any = None,
        dtype: Any = None,
    ) -> Future:
        """Like Client.submit()."""
        return self._session.submit(
            self.handle, data, timeout=timeout, response_capacity=response_capacity, out=out, dtype=dtype
        )

    async def acall(
        self,
        data: Any = b"",
        *,
        timeout: Optional[float] = None,
        response_capacity: Optional[int] = None,
        out: Any = None,
        dtype: Any = None,
    ) -> Any:
        """Like Client.acall()."""
        return await self._session.acall(
            self.handle, data, timeout=timeout, response_capacity=response_capacity, out=out, dtype=dtype
        )

    def __repr__(self) -> str:
        return "<invoker.Function %s>" % self.name


class GroupFunction:
    """A function that all workers of a group have, made by Group.function(). The arguments are those of Client's methods."""

    def __init__(self, calls: SessionGroup, name: str) -> None:
        """For Group.function()."""
        self._calls = calls
        self._name = name

    @property
    def name(self) -> str:
        """The function's name."""
        return self._name

    def __call__(self, data: Any = b"", **options: Any) -> Any:
        """Like Client.call()."""
        return self._calls.call(self._name, data, **options)

    def submit(self, data: Any = b"", **options: Any) -> Future:
        """Like Client.submit()."""
        return self._calls.submit(self._name, data, **options)

    async def acall(self, data: Any = b"", **options: Any) -> Any:
        """Like Client.acall()."""
        return await self._calls.acall(self._name, data, **options)

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
        if max_in_flight is None:
            max_in_flight = self._calls.default_in_flight()
        return mapping.run(
            lambda data: self.submit(data, **options),
            inputs,
            ordered=ordered,
            max_in_flight=max_in_flight,
            progress=progress,
        )

    def __repr__(self) -> str:
        return "<invoker.GroupFunction %s>" % self._name


class Functions:
    """Functions by their names, and Python functions to ship: the base of Client and Group."""

    def __init__(self, caller: Caller, own_lease: Optional[Callable[[], LeaseCalls]]) -> None:
        """own_lease: takes the lease for register() and upload(); None: a subclass has its own of both."""
        self._caller = caller
        self._own_lease = None if own_lease is None else OwnLease(own_lease)

    def submit(self, name: str, data: Any = b"", **options: Any) -> Future:
        """Like Client.submit()."""
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
            self._caller, name, timeout=timeout, response_capacity=response_capacity
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
            max_in_flight = self._caller.default_in_flight()
        return mapping.run(
            submit,
            inputs,
            ordered=ordered,
            max_in_flight=max_in_flight,
            progress=progress,
        )

    def register(
        self, function: Callable[..., Any], *, name: Optional[str] = None
    ) -> RemoteFunction:
        """Ships a Python function to an executor and returns it as one that runs there. Also a decorator.

        The executor is one of this client's own: the first call of any function so registered leases it, with default terms
        (one executor, the worker's memory, limits and polling), and close() gives it back. If it has ended by itself, as it
        does when a function crashes, the next call leases another and ships the function again. For other terms, or more
        executors, use Lease.register().

        name: on the worker; None: the function's own.
        """
        if not callable(function):
            raise TypeError("%r is not callable" % (function,))
        own = shipping.name_for(function, ()) if name is None else arguments.text("name", name)
        assert self._own_lease is not None
        return RemoteFunction(OnFirstUse(self._own_lease, function, name), own, function=function)

    def upload(self, path: Union[str, os.PathLike[str]]) -> Any:
        """Brings a shared library of functions to an executor of this client's own, as register() does.

        Returns its functions by name: a dict of GroupFunction, which end with that executor's lease: if that has ended by
        itself, upload again. Lease.upload() brings a library to the executors of a lease of yours.
        """
        assert self._own_lease is not None
        lease = self._own_lease.get()
        return {name: GroupFunction(lease, name) for name in lease.upload(path)}

    def close(self) -> Any:
        """Gives back the lease that register() or upload() has taken."""
        if self._own_lease is not None:
            self._own_lease.close()
