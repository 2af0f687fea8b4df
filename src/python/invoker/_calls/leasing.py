"""Takes leases: with the terms of Client.lease() and Group.lease(), or when a function is first called."""

from __future__ import annotations

import math
import numbers
import threading
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

from invoker._calls import arguments
from invoker._calls.caller import Caller, RemoteCall
from invoker._calls.connecting import Connecting
from invoker._calls.futures import CallFuture
from invoker._calls.lease_calls import LeaseCalls
from invoker._native import _invoker
from invoker._native.fork import renew_locks_of
from invoker.errors import FailedPrecondition, InvalidArgument

_POLLING = ("hot", "warm", "adaptive")
# The largest count that the wire carries; no worker has as many executors.
_MOST_EXECUTORS = 2**32 - 1
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def take(
    way: Connecting,
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
    at_least: int = 0,
    labels: Optional[Mapping[str, str]] = None,
    spread: str = "",
    replace: bool = False,
) -> LeaseCalls:
    """Takes a lease on the worker as Client.lease() does, or on those of a group as Group.lease() does.

    python: not None for those of a group.
    """
    if python is None:
        python = way.capacity()["python"]
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
        "at_least": arguments.whole("at_least", at_least, least=0, most=_MOST_EXECUTORS),
        "labels": {
            arguments.text("a label", name): arguments.text("a label's value", value)
            for name, value in (labels or {}).items()
        },
        "spread": arguments.text("spread", spread),
        "replace": bool(replace),
    }
    return LeaseCalls(_acquire(way, terms))


class OwnLease:
    """The lease of a Client or Group for the functions that register() ships. Any thread."""

    def __init__(self, take: Callable[[], LeaseCalls]) -> None:
        self._take = take
        renew_locks_of(self)
        # Under the lock.
        self._lease: Optional[LeaseCalls] = None
        self._closed = False

    def renew_locks(self) -> None:
        self._lock = threading.Lock()

    def get(self) -> LeaseCalls:
        """The lease, which it takes if there is none yet or it has ended by itself."""
        with self._lock:
            if self._closed:
                raise FailedPrecondition("the client has been closed", fate="not_sent")
            ended = self._lease
            if ended is not None and not ended.is_over():
                return ended
            if ended is not None:
                self._lease = None
                # This may be a callback of one of its calls, which close() would wait for.
                threading.Thread(target=ended.close, name="invoker-lease-end").start()
            self._lease = self._take()
            return self._lease

    def close(self) -> None:
        """Gives the lease back, and takes no other."""
        with self._lock:
            self._closed = True
            lease, self._lease = self._lease, None
        if lease is not None:
            lease.close()


class OnFirstUse(Caller):
    """Calls one function by an own lease, to which the first call ships it; again if that lease has ended by itself."""

    def __init__(self, own_lease: OwnLease, function: Callable[..., Any], name: Optional[str]) -> None:
        self._own_lease = own_lease
        self._function = function
        self._name = name
        self._lock = threading.Lock()
        # The lease and the name there. Set under the lock, and read without.
        self._shipped: Optional[Tuple[LeaseCalls, str]] = None

    def _there_already(self) -> Optional[Tuple[LeaseCalls, str]]:
        """None if it has not been shipped, or its lease has ended. Does not block."""
        shipped = self._shipped
        return None if shipped is None or shipped[0].is_over() else shipped

    def _there(self) -> Tuple[LeaseCalls, str]:
        there = self._there_already()
        if there is not None:
            return there
        with self._lock:
            there = self._there_already()
            if there is None:
                lease = self._own_lease.get()
                there = self._shipped = (lease, lease.ship(self._function, self._name))
            return there

    def executors(self) -> int:
        return self._there()[0].executors()

    def call_remote(self, call: RemoteCall, args: tuple, kwargs: dict) -> Any:
        lease, name = self._there()
        return lease.call_remote(call._replace(name=name), args, kwargs)

    def begin_remote(self, call: RemoteCall, frame: _invoker.Frame, may_block: bool) -> Optional[CallFuture]:
        there = self._there_already()
        if there is None:
            # Leasing takes a while, and shipping.
            if not may_block:
                return None
            there = self._there()
        return there[0].begin_remote(call._replace(name=there[1]), frame, may_block)


def _acquire(way: Connecting, terms: Dict[str, Any]) -> _invoker.NativeLease:
    """The native lease. Another thread waits in line, so that the main thread runs signal handlers meanwhile."""
    if terms["wait"] == 0 or threading.current_thread() is not threading.main_thread():
        return _invoker.lease(way, terms)
    done = _invoker.Event()
    lock = threading.Lock()
    result: List[Any] = []
    abandoned: List[bool] = []

    def run() -> None:
        try:
            got: Any = _invoker.lease(way, terms)
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
    """A limit in seconds, 0 for None. At least a microsecond: the wire counts these, and 0 there means no limit."""
    if seconds is None:
        return 0.0
    return max(arguments.seconds_from(name, seconds, zero=False), 1e-6)


def _seconds(name: str, seconds: Optional[float]) -> float:
    return 0.0 if seconds is None else arguments.seconds_from(name, seconds, zero=True)
