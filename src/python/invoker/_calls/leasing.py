"""What leases: the part of a Client and a Group that gets executors of one's own."""

from __future__ import annotations

import math
import numbers
import os
import threading
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Tuple, Union

from invoker._calls import arguments
from invoker._native import _invoker
from invoker._pickle import frames
from invoker._calls.calls import Calls
from invoker._calls.credentials import Credentials
from invoker._native.fork import renew_locks_of
from invoker.errors import FailedPrecondition, InvalidArgument
from invoker.remote_function import RemoteFunction
from invoker.usage import Capacity

if TYPE_CHECKING:
    from concurrent.futures import Future

    from invoker.lease import Lease

_POLLING = ("hot", "warm", "adaptive")
# What counts executors on the wire ends there; no worker has as many.
_MOST_EXECUTORS = 2**32 - 1
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class Connecting(NamedTuple):
    """The way to one worker, as connect() was given it."""

    server: str
    provider: str = ""
    fabric_address: str = ""
    notify: str = "auto"
    data_auth: str = "off"
    window: int = 0
    connect_timeout: float = 10.0
    hot_timeout: float = 0.001
    credentials: Credentials = Credentials()
    peer_timeout: float = 1.0
    pieces_up_to: Optional[int] = None

    def connect(self) -> _invoker.NativeClient:
        return _invoker.connect(*self)

    def capacity(self) -> Capacity:
        return Capacity(**_invoker.capacity(self.server, self.connect_timeout, self.credentials))


class Leasing:
    """Takes leases on the worker."""

    def __init__(self, connecting: Optional[Connecting]) -> None:
        """For Client and Group."""
        self._connecting = connecting
        renew_locks_of(self)
        self._own_lease: Optional[Lease] = None  # under the lock
        self._leases_closed = False

    def _renew_locks(self) -> None:
        self._lease_lock = threading.Lock()

    def capacity(self) -> Capacity:
        """What the worker has to lease, and what of it is free. Blocks for a round trip."""
        return self._way().capacity()

    def lease(
        self,
        executors: int = 1,
        memory: Union[int, str, None] = None,
        *,
        hot_timeout: Optional[float] = None,
        ttl: Optional[float] = None,
        polling: Optional[str] = None,
        call_limit: Optional[float] = None,
        wait: float = 0.0,
        tenant: str = "",
        python: Optional[bool] = None,
    ) -> Lease:
        """Leases executors of one's own on the worker: processes that run this lease's calls and no others.

        executors: how many, each with a core.
        memory: of each, in bytes, or as "512M" (K, M, G: powers of 1024); None: the worker's default. Where the worker limits
            memory by cgroups, a function that uses more ends the lease; elsewhere what it asks for beyond that is refused,
            which for Python is a MemoryError, and the lease goes on.
        hot_timeout: seconds for which an executor busy-polls after a call before it sleeps; implies polling="adaptive".
        ttl: seconds after which the lease ends, whatever happens; None: the most that the worker gives.
        polling: "hot", "warm" or "adaptive": whether executors busy-poll while they have nothing to do; None: the worker's way.
        call_limit: seconds for a call at most. A function that runs longer ends the lease. None: the worker's most.
        wait: seconds to wait in line if not enough is free, math.inf for ever. Ctrl-C ends the wait.
        tenant: whose bill it is.
        python: executors that can run Python functions (Lease.register()); None: if the worker has such.

        Ended by Lease.close(), by the end of this process, or by what its functions do.

        Raises ResourceExhausted if not enough is free, now or after `wait`; InvalidArgument for more than the worker has at
        all; FailedPrecondition for Python executors of a worker that has none.
        """
        from invoker.lease import Lease, acquire

        way = self._way()
        if python is None:
            python = way.capacity().python
        elif not isinstance(python, bool):
            raise TypeError("python must be True, False or None, not %s" % type(python).__name__)
        if polling is None and hot_timeout is not None:
            polling = "warm" if hot_timeout == 0 else "adaptive"
        if polling is None:
            polling = ""
        elif polling not in _POLLING:
            raise InvalidArgument("polling=%r is not one of %s" % (polling, ", ".join(_POLLING)))
        terms = {
            "executors": arguments.whole("executors", executors, least=1, most=_MOST_EXECUTORS),
            "python": python,
            "memory": parse_bytes(memory),
            "polling": polling,
            "hot_timeout": _seconds("hot_timeout", hot_timeout),
            "ttl": limit_seconds("ttl", ttl),
            "call_limit": limit_seconds("call_limit", call_limit),
            "wait": _seconds("wait", wait),
            "tenant": arguments.text("tenant", tenant),
        }
        return Lease(acquire(way, terms), way)

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
        own = function_name(function) if name is None else arguments.text("name", name)
        return RemoteFunction(OnFirstUse(self, function, name), own, function=function)

    def upload(self, path: Union[str, os.PathLike[str]]) -> Any:
        """Brings a shared library of functions to an executor of this client's own, as register() does.

        Returns its functions by name: a dict of GroupFunction, which end with that executor's lease: if that has ended by
        itself, upload again. Those of a lease of yours are brought by Lease.upload().
        """
        lease = self._lease_of_its_own()
        return {name: lease.function(name) for name in lease.upload(path)}

    def _way(self) -> Connecting:
        if self._connecting is None:
            raise FailedPrecondition("this is an executor of a lease: it leases nothing itself")
        return self._connecting

    def _lease_of_its_own(self) -> Lease:
        with self._lease_lock:
            if self._leases_closed:
                raise FailedPrecondition("the client has been closed", fate="not_sent")
            ended = self._own_lease
            if ended is not None and not _is_over(ended):
                return ended
            if ended is not None:
                self._own_lease = None
                # Not here, which may be a callback of a call of its own, for which closing would wait.
                threading.Thread(target=ended.close, name="invoker-lease-end").start()
            self._own_lease = self.lease()
            return self._own_lease

    def _close_own_lease(self) -> None:
        with self._lease_lock:
            self._leases_closed = True
            lease, self._own_lease = self._own_lease, None
        if lease is not None:
            lease.close()


class OnFirstUse(Calls):
    """Calls one function by a lease that the first call takes, and the first one after that lease has ended by itself."""

    def __init__(
        self, client: Leasing, function: Callable[..., Any], name: Optional[str]
    ) -> None:
        """For Leasing.register()."""
        self._client = client
        self._function = function
        self._name = name
        self._lock = threading.Lock()
        # To which lease, and as what. Set under the lock, and read without.
        self._shipped: Optional[Tuple[Lease, RemoteFunction]] = None

    def _there_already(self) -> Optional[RemoteFunction]:
        """None if it has not been shipped, or its lease has ended. Does not block."""
        shipped = self._shipped
        return None if shipped is None or _is_over(shipped[0]) else shipped[1]

    def _there(self) -> RemoteFunction:
        there = self._there_already()
        if there is not None:
            return there
        with self._lock:
            there = self._there_already()
            if there is None:
                lease = self._client._lease_of_its_own()
                there = lease.register(self._function, name=self._name)
                self._shipped = (lease, there)
            return there

    def _default_in_flight(self) -> int:
        return self._there()._target._default_in_flight()

    def _call_remote(
        self,
        name: str,
        args: tuple,
        kwargs: dict,
        timeout: Optional[float],
        response_capacity: Optional[int],
    ) -> Any:
        there = self._there()
        return there._target._call_remote(there.name, args, kwargs, timeout, response_capacity)

    def _begin_remote(
        self,
        name: str,
        parts: frames.Parts,
        timeout: Optional[float],
        response_capacity: Optional[int],
        may_block: bool,
    ) -> Optional[Future]:
        there = self._there_already()
        if there is None:
            # Leasing takes a while, and shipping.
            if not may_block:
                return None
            there = self._there()
        return there._target._begin_remote(
            there.name, parts, timeout, response_capacity, may_block
        )


def _is_over(lease: Lease) -> bool:
    """Whether the lease cannot be used any more: closed, or ended by itself."""
    return lease._native.closed or lease.ended is not None


def function_name(function: Callable[..., Any]) -> str:
    from invoker._pickle import shipping

    return shipping.name_for(function, ())


def parse_bytes(size: Union[int, str, None]) -> int:
    """Bytes, of a number or of text such as "512M" or "1.5GiB"; 0 for None."""
    if size is None:
        return 0
    count: float = 0
    if isinstance(size, str):
        text = size.strip().upper()
        for ending in ("IB", "B"):
            if text.endswith(ending):
                text = text[: -len(ending)]
                break
        unit = text[-1:] if text[-1:] in _UNITS else ""
        try:
            count = float(text[: len(text) - len(unit)]) * _UNITS[unit]
        except ValueError:
            count = math.nan
    elif isinstance(size, numbers.Real):
        count = float(size)
    else:
        raise TypeError("memory must be bytes, or text such as \"512M\", not %s" % type(size).__name__)
    if not 0 < count < 2**63:
        raise InvalidArgument('memory=%r is no size: give bytes, or text such as "512M"' % (size,))
    return int(count)


def limit_seconds(name: str, seconds: Optional[float]) -> float:
    """A limit in seconds, 0 for None. What is sent counts microseconds, of which none would stand for no limit of one's own."""
    if seconds is None:
        return 0.0
    return max(arguments.seconds_from(name, seconds, zero=False), 1e-6)


def _seconds(name: str, seconds: Optional[float]) -> float:
    return 0.0 if seconds is None else arguments.seconds_from(name, seconds, zero=True)
