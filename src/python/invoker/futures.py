"""Executor: concurrent.futures over leased executors."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import functools
import itertools
import threading
import time
from concurrent.futures import BrokenExecutor, Future
from concurrent.futures._base import DoneAndNotDoneFutures
from typing import Any, Callable, Deque, Iterable, Iterator, List, Optional, Set, Tuple, Union

from invoker._calls.ended import Ended
from invoker._calls.futures import WaitedFuture
from invoker._pickle import shipping
from invoker.client import Client, connect
from invoker.errors import FailedPrecondition
from invoker.group import Group
from invoker.lease import Lease
from invoker.remote_function import RemoteFunction

# Calls under way for each executor: one runs, and the next one is there when that ends.
_IN_FLIGHT = 2


class Executor(concurrent.futures.Executor):
    """A concurrent.futures.Executor over leased executors of one worker or several: each is a process that runs one call at a time.

        with invoker.Executor("10.0.0.7:7000", max_workers=4) as executor:
            print(executor.submit(pow, 2, 100).result())
            print(list(executor.map(math.factorial, range(100), chunksize=10)))

    Functions, arguments and results travel as RemoteFunction says, and functions as Lease.register() says; a function goes along
    with each call, as it is then. submit() does not block: what finds no executor free waits here, and cancel() on its future takes it
    away. A future whose call is under way is running and cannot be cancelled. Futures' callbacks run on a thread of the lease. A crash
    of a function ends its lease, whose calls fail with invoker.Aborted; without another lease, later ones fail with BrokenExecutor.
    Works with loop.run_in_executor() and, by invoker.joblib, with joblib. Any thread.
    """

    def __init__(
        self,
        where: Union[str, Client, Group],
        max_workers: Optional[int] = None,
        **terms: Any,
    ) -> None:
        """where: a Lease, which is used and left open; or a Client, a Group or connect()'s servers, of which leases are taken.

        max_workers: executors to lease, over all workers together; None: all that are free now.
        terms: those of Client.lease(), but for executors=.

        Blocks while it connects and leases; the errors are those of connect() and Client.lease().
        """
        if max_workers is not None and max_workers < 1:
            # In the standard library's words.
            raise ValueError("max_workers must be greater than 0")
        self._lock = threading.Condition()
        self._closing = threading.Lock()
        self._waiting: Deque[_Task] = collections.deque()
        self._is_shut_down = False
        self._owned: List[Any] = []
        leases: List[Lease] = []
        try:
            if isinstance(where, Lease):
                if max_workers is not None or terms:
                    raise TypeError("a lease has its executors and its terms already: give it alone")
                leases.append(where)
            else:
                if isinstance(where, str):
                    where = connect(where)
                    self._owned.append(where)
                clients = where.clients if isinstance(where, Group) else [where]
                for client, share in _shares(clients, max_workers):
                    leases.append(client.lease(executors=share, **terms))
                    self._owned.insert(0, leases[-1])
            self._places = [_Place(lease, lease.register(_apply)) for lease in leases]
        except BaseException:
            self._close_owned()
            raise

    @property
    def max_workers(self) -> int:
        """How many executors it has."""
        return sum(place.executors for place in self._places)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Schedules fn(*args, **kwargs). RuntimeError after shutdown(); what cannot travel is the future's exception."""
        future = WaitedFuture()
        if isinstance(fn, _ForEach):
            (args,) = args
        with self._lock:
            if self._is_shut_down:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._waiting.append(_Task(future, fn, args, kwargs))
        self._start_waiting()
        return future

    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        timeout: Optional[float] = None,
        chunksize: int = 1,
        **options: Any,
    ) -> Iterator[Any]:
        """Like concurrent.futures.Executor.map(). One call takes chunksize inputs, one after the other."""
        if chunksize < 1:
            raise ValueError("chunksize must be at least 1")
        for_each = _ForEach(shipping.dumps(fn))
        inputs = zip(*iterables)
        chunks = iter(lambda: list(itertools.islice(inputs, chunksize)), [])
        results = super().map(for_each, chunks, timeout=timeout, **options)
        return _flat(results)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more calls; with cancel_futures, cancels those that wait. Leases that it has taken end when the last call has.

        wait: blocks until then.
        """
        with self._lock:
            first = not self._is_shut_down
            self._is_shut_down = True
            cancelled = list(self._waiting) if cancel_futures else []
            if cancel_futures:
                self._waiting.clear()
            self._lock.notify_all()
        for task in cancelled:
            if task.future.cancel():
                # For as_completed() and wait().
                task.future.set_running_or_notify_cancel()
        if first and not wait:
            threading.Thread(target=self._finish, name="invoker-executor-end", daemon=True).start()
        if wait:
            self._finish()

    def _finish(self) -> None:
        with self._lock:
            self._lock.wait_for(self._is_idle)
        # The first one closes, and others wait for it.
        with self._closing:
            self._close_owned()

    def _is_idle(self) -> bool:
        return not self._waiting and all(place.under_way == 0 for place in self._places)

    def _close_owned(self) -> None:
        for owned in self._owned:
            owned.close()
        self._owned.clear()

    def _start_waiting(self) -> None:
        """Starts calls as far as executors have room."""
        while True:
            with self._lock:
                task, place = self._next()
                if task is None:
                    # For _finish().
                    self._lock.notify_all()
                    return
                if place is not None:
                    place.under_way += 1
            if not task.future.set_running_or_notify_cancel():
                self._ended(place)
                continue
            if place is None:
                task.future.set_exception(BrokenExecutor("every lease of the executor has ended: %s" % self._why_ended()))
                continue
            try:
                if isinstance(task.fn, _ForEach):
                    call = place.remote.submit(task.fn.code, task.args, None)
                else:
                    call = place.remote.submit(shipping.dumps(task.fn), task.args, task.kwargs)
            except BaseException as error:
                self._ended(place)
                task.future.set_exception(error)
                continue
            call.add_done_callback(functools.partial(self._take_result, place, task.future))

    def _next(self) -> Tuple[Optional["_Task"], Optional["_Place"]]:
        """The task that can start, and where; nowhere if every lease has ended. With the lock."""
        if not self._waiting:
            return None, None
        alive = [place for place in self._places if not place.has_ended()]
        if not alive:
            return self._waiting.popleft(), None
        place = min(alive, key=_Place.load)
        if place.under_way >= _IN_FLIGHT * place.executors:
            return None, None
        return self._waiting.popleft(), place

    def _ended(self, place: Optional["_Place"]) -> None:
        with self._lock:
            if place is not None:
                place.under_way -= 1

    def _take_result(self, place: "_Place", future: Future, call: Future) -> None:
        self._ended(place)
        # Before callbacks of the future, which may take their time.
        self._start_waiting()
        if call.cancelled():
            future.set_exception(BrokenExecutor("the lease was closed while the call was under way"))
        elif call.exception() is not None:
            future.set_exception(call.exception())
        else:
            future.set_result(call.result())

    def _why_ended(self) -> str:
        return "; ".join(place.why_ended() for place in self._places)


def wait(
    fs: Iterable[Future],
    timeout: Optional[float] = None,
    return_when: str = concurrent.futures.ALL_COMPLETED,
) -> Any:
    """Like concurrent.futures.wait(), but signal handlers run within 0.1 s, so Ctrl-C ends it."""
    done: Set[Future] = set()
    not_done = set(fs)
    with _ending(not_done, timeout) as next_ended:
        while not _is_enough(done, not_done, return_when):
            future = next_ended()
            if future is None:
                break
            not_done.remove(future)
            done.add(future)
    done.update(future for future in not_done if future.done())
    return DoneAndNotDoneFutures(done, not_done - done)


def as_completed(fs: Iterable[Future], timeout: Optional[float] = None) -> Iterator[Future]:
    """Like concurrent.futures.as_completed(), but signal handlers run within 0.1 s, so Ctrl-C ends it."""
    waiting = set(fs)
    total = len(waiting)
    with _ending(waiting, timeout) as next_ended:
        while waiting:
            future = next_ended()
            if future is None:
                raise concurrent.futures.TimeoutError("%d (of %d) futures unfinished" % (len(waiting), total))
            waiting.remove(future)
            yield future


@contextlib.contextmanager
def _ending(futures: Iterable[Future], timeout: Optional[float]) -> Iterator[Callable[[], Optional[Future]]]:
    """Gives what returns the futures one by one, as they end, and None after the timeout."""
    until = None if timeout is None else time.monotonic() + timeout
    ended = Ended()
    for future in futures:
        future.add_done_callback(ended.note)

    try:
        yield lambda: ended.get(until)
    finally:
        ended.close()


def _is_enough(done: Set[Future], not_done: Set[Future], return_when: str) -> bool:
    if not not_done:
        return True
    if return_when == concurrent.futures.FIRST_COMPLETED:
        return bool(done)
    if return_when == concurrent.futures.FIRST_EXCEPTION:
        return any(not future.cancelled() and future.exception() is not None for future in done)
    if return_when != concurrent.futures.ALL_COMPLETED:
        raise ValueError("return_when=%r is none of concurrent.futures'" % (return_when,))
    return False


class _Task:
    __slots__ = ("future", "fn", "args", "kwargs")

    def __init__(self, future: Future, fn: Callable[..., Any], args: tuple, kwargs: dict) -> None:
        self.future = future
        self.fn = fn
        self.args = args
        self.kwargs = kwargs


class _Place:
    """A lease, and how many calls are under way there."""

    def __init__(self, lease: Lease, remote: RemoteFunction) -> None:
        self.lease = lease
        self.remote = remote
        self.executors = len(lease)
        self.under_way = 0

    def load(self) -> float:
        return self.under_way / self.executors

    def has_ended(self) -> bool:
        return self.lease._calls.is_over()

    def why_ended(self) -> str:
        try:
            return str(self.lease.ended or "it was closed")
        except FailedPrecondition:
            return "it was closed"


class _ForEach:
    """A function as bytes, to be called once for each tuple of arguments in a list."""

    def __init__(self, code: bytes) -> None:
        self.code = code


def _shares(clients: List[Client], most: Optional[int]) -> List[Tuple[Client, int]]:
    """How many executors to lease from each: in turn, one from each that has more."""
    free = [client.capacity().free_cores for client in clients]
    wanted = sum(free) if most is None else most
    shares = [0] * len(clients)
    while sum(shares) < wanted and shares != free:
        for index, available in enumerate(free):
            if shares[index] < available and sum(shares) < wanted:
                shares[index] += 1
    if most is not None and sum(shares) < most:
        # The worker says what is free, or the lease waits for it.
        shares[free.index(max(free))] += most - sum(shares)
    if sum(shares) == 0:
        shares[0] = 1
    return [(client, share) for client, share in zip(clients, shares) if share > 0]


def _flat(results: Iterator[List[Any]]) -> Iterator[Any]:
    for chunk in results:
        # What was yielded is not kept, like in the standard library.
        chunk.reverse()
        while chunk:
            yield chunk.pop()


def _apply(code: bytes, args: Any, kwargs: Optional[dict]) -> Any:
    """Runs on the worker. Without kwargs, args is a list of tuples, for a call each."""
    function = shipping.loads(code)
    return [function(*each) for each in args] if kwargs is None else function(*args, **kwargs)
