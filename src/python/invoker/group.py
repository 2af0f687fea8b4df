"""Group: several sessions as one, each call going to the one with the fewest under way."""

from __future__ import annotations

import dataclasses
import functools
import threading
from concurrent.futures import Future
from typing import Any, Callable, Iterable, Iterator, List, Optional, Sequence, TypeVar, Union, overload

from invoker._calls import mapping, retry
from invoker._calls.reconnect import Reconnector
from invoker._native import _invoker
from invoker._pickle import frames
from invoker._calls.calls import Calls
from invoker._calls.closing import Closing
from invoker._calls.futures import CallFuture
from invoker._calls.leasing import Leasing
from invoker._calls.sessions import Place, Session
from invoker._calls.waiting import Waiting
from invoker.client import Client
from invoker.errors import (
    FailedPrecondition,
    InvalidArgument,
    InvokerError,
    ResourceExhausted,
    Unavailable,
)
from invoker.remote_function import RemoteFunction
from invoker.usage import Capacity

_Result = TypeVar("_Result")


class Group(Calls, Leasing, Closing):
    """Several sessions as one, made by connect() with several servers. A context manager; close() ends them all.

    A call goes to the session with the fewest calls under way that are this group's; of those that are equal, in turn. A
    session whose worker has gone gets no more calls while another one works. Calls that are under way there then fail, with
    Unavailable: nothing is retried in silence, but with retry=. The group connects again to a worker that has gone, in the
    background, as soon as it is there (connect()'s reconnect=); a lease does not, since what its executors had in
    memory is gone.

    The arguments of calls are those of Client's, and retry: how often to try again, on another session, a call that has
    ended because its worker was lost or takes no more calls. Whoever sets it says that the function may run more than
    once. Failures of functions are never tried again. timeout is that of all tries together. Any thread.
    """

    def __init__(self, clients: Sequence[Client], reconnect: bool = False) -> None:
        """For connect() and Lease."""
        Leasing.__init__(self, None)
        self._bell = _invoker.Bell()
        self._reconnector = Reconnector(self, self._bell) if reconnect else None
        self._clients = list(clients)
        # Under the lock.
        self._sessions = [Session(*each) for each in enumerate(self._clients)]
        # Those that another one has followed, and whose callbacks may still run.
        self._followed: List[Client] = []
        self._ending = False
        self._last = -1
        # What the bell has been rung for, and looked at.
        self._heard = 0
        self._waiting = Waiting()
        for client in self._clients:
            client._watch(self._bell)
        if self._reconnector is not None:
            self._reconnector.start()

    @property
    def clients(self) -> List[Client]:
        """The sessions, in the order of the servers. They are the group's to close."""
        return list(self._clients)

    def call(self, name: str, data: Any = b"", **options: Any) -> Any:
        """As Client.call(), on one of the sessions."""
        again = retry.Tries(self, options)
        while True:
            try:
                return self._run(lambda client: client.call(name, data, **again.options()))
            except InvokerError as error:
                if not again.may_try(error):
                    raise

    def submit(self, name: str, data: Any = b"", **options: Any) -> Future:
        """As Client.submit(), on one of the sessions. With retry, data stays as it is until the future has ended."""
        again = retry.Tries(self, options)

        def start(may_block: bool, whole: Optional[CallFuture]) -> Optional[Future]:
            return self._start(
                lambda client: client._submit(name, data, may_block, whole, **again.options())
            )

        return retry.submit(again, start)

    async def acall(self, name: str, data: Any = b"", **options: Any) -> Any:
        """As Client.acall(), on one of the sessions."""
        again = retry.Tries(self, options)
        while True:
            places: List[Place] = []
            try:
                places.append(self._take())
                return await places[0].session.client.acall(name, data, **again.options())
            except InvokerError as error:
                if places:
                    self._note(places[0].session, error)
                if not again.may_try(error):
                    raise
            finally:
                if places:
                    self._give_back(places.pop())

    @overload
    def function(self, function: str) -> GroupFunction: ...

    @overload
    def function(self, function: Callable[..., Any]) -> RemoteFunction: ...

    def function(
        self, function: Union[str, Callable[..., Any]]
    ) -> Union[GroupFunction, RemoteFunction]:
        """The function of that name, as a callable. With a Python function, also as a decorator, the same as register()."""
        if callable(function):
            return self.register(function)
        for client in self._clients:
            # So that a name which one of them lacks is found out here.
            client._handle(function)
        return GroupFunction(self, function)

    def functions(self) -> List[str]:
        """The names of the functions that all workers have."""
        first, *others = [client.functions() for client in self._clients]
        return [name for name in first if all(name in names for names in others)]

    def ping(self, size: int = 0, *, timeout: Optional[float] = None) -> float:
        """The longest of a round trip with each session, in seconds."""
        return max(client.ping(size, timeout=timeout) for client in self._clients)

    def lease(self, *arguments: Any, **options: Any) -> Any:
        """As Client.lease(): all executors on one worker, that with the most free cores among those which can give them.

        If none has enough free and the lease is to wait in line, it does so on that one. Spread over several workers, a
        lease is several: take one of each of `clients`.
        """
        wait = options.pop("wait", 0.0)
        refused: Optional[InvokerError] = None
        full: Optional[Client] = None
        for client in self._by_free_cores():
            try:
                return client.lease(*arguments, **options)
            except ResourceExhausted as error:
                if full is None:
                    refused, full = error, client
            except (FailedPrecondition, InvalidArgument, Unavailable) as error:
                if refused is None:
                    refused = error
        if full is not None and wait != 0:
            return full.lease(*arguments, wait=wait, **options)
        assert refused is not None
        raise refused

    def _by_free_cores(self) -> List[Client]:
        """The sessions, those first whose workers have the most free cores, and, without any, the most cores."""
        cores = {}
        for client in self._clients:
            try:
                capacity = client.capacity()
            except InvokerError:
                # The lease there says why.
                cores[client] = (-1, -1)
            else:
                cores[client] = (capacity.free_cores, capacity.cores)
        return sorted(self._clients, key=lambda client: cores[client], reverse=True)

    def _renew_locks(self) -> None:
        super()._renew_locks()
        self._lock = threading.Lock()

    def capacity(self) -> Any:
        """As Client.capacity(), of all workers together."""
        every = [dataclasses.astuple(client.capacity()) for client in self._clients]
        sums = [sum(column) for column in zip(*every)]
        # Of the last two, which are not counts: any.
        return Capacity(*sums[:-2], *map(bool, sums[-2:]))

    def close(self) -> None:
        """Ends calls under way and every session."""
        self._close_own_lease()
        # All calls first: a thread that is waited for below may be waiting for room in another session, to try a call
        # again.
        with self._lock:
            self._ending = True
            clients = self._clients + self._followed
        for client in clients:
            client._end_calls()
        if self._reconnector is not None:
            self._reconnector.stop()
        for client in clients:
            client.close()

    def __len__(self) -> int:
        return len(self._clients)

    def __repr__(self) -> str:
        return "<invoker.%s of %d>" % (type(self).__name__, len(self._clients))

    @property
    def max_payload(self) -> int:
        """Largest payload that every session takes, in bytes."""
        return min(client.max_payload for client in self._clients)

    def _take(self) -> Place:
        with self._lock:
            self._hear()
            count = len(self._sessions)
            alive = [session for session in self._sessions if not session.gone]
            if not alive and self._reconnector is not None:
                raise Unavailable(
                    "none of the %d sessions is left; the group connects again as soon as a worker is there" % count,
                    fate="not_sent",
                )
            # The next one in turn first, so that among equals each has its turn.
            session = min(
                alive or self._sessions,
                key=lambda one: (len(one.under_way), (one.index - self._last - 1) % count),
            )
            self._last = session.index
            return Place(session)

    def _hear(self) -> None:
        """Under the lock: notes what has ended since the last time, so that no call has to find it out."""
        rings = self._bell.rings
        if rings != self._heard:
            self._heard = rings
            for session in self._sessions:
                session.gone = session.gone or session.client._has_ended()

    def _ended_sessions(self) -> List[int]:
        """For the reconnector: those that have ended and that none has followed."""
        with self._lock:
            self._hear()
            return [session.index for session in self._sessions if session.client._has_ended()]

    def _give_back(self, place: Place) -> None:
        session = place.session
        with self._lock:
            place.leave()
            unused = session.followed and not session.under_way
        if unused and self._reconnector is not None:
            self._reconnector.unused(session.client)

    def _note(self, session: Session, error: Optional[BaseException]) -> None:
        if retry.shows_lost_session(error):
            with self._lock:
                session.gone = True
                followed = session.followed
            if self._reconnector is not None and not followed:
                self._reconnector.lost(session.index)

    def _others_left(self) -> bool:
        """Whether a call may find a session whose worker has not gone."""
        with self._lock:
            self._hear()
            return not all(session.gone for session in self._sessions)

    def _connect_again(self, index: int, longest_step: float) -> bool:
        """For the reconnector: a new session in the place of a lost one, whose calls go on."""
        with self._lock:
            old = self._sessions[index]
        way = old.client._connecting
        # Lost once more while it was being replaced, by calls of the old one.
        if way is None or not old.gone:
            return True
        quick = way._replace(connect_timeout=min(way.connect_timeout, longest_step))
        new = Client(quick.connect(), way)
        with self._lock:
            # What it would be in place of has been ended, or is about to be.
            ending = self._ending
            if not ending:
                self._sessions[index] = Session(index, new)
                self._clients[index] = new
                self._followed = [client for client in self._followed if not client._has_gone()]
                self._followed.append(old.client)
                old.followed = True
            unused = not old.under_way
        new._watch(self._bell)
        if ending:
            new.close()
        elif unused and self._reconnector is not None:
            self._reconnector.unused(old.client)
        return True

    # A place is in a list, and out of it when it is given back: whoever keeps an exception keeps what frames refer to.

    def _run(self, call: Callable[[Client], _Result]) -> _Result:
        places = [self._take()]
        try:
            return call(places[0].session.client)
        except InvokerError as error:
            self._note(places[0].session, error)
            raise
        finally:
            self._give_back(places.pop())

    def _start(self, start: Callable[[Client], Optional[Future]]) -> Optional[Future]:
        places = [self._take()]
        future = None
        try:
            future = start(places[0].session.client)
            if future is not None:
                future.add_done_callback(functools.partial(self._ended, places))
            return future
        except InvokerError as error:
            self._note(places[0].session, error)
            raise
        finally:
            if future is None:
                self._give_back(places.pop())
            del places

    def _ended(self, places: List[Place], future: Future) -> None:
        # Out of the list, which the future keeps.
        place = places.pop()
        # In this order: the next call must not take it for one with less to do.
        if not future.cancelled():
            self._note(place.session, future.exception())
        self._give_back(place)

    def _default_in_flight(self) -> int:
        return 2 * len(self._clients)

    def _call_remote(
        self,
        name: str,
        args: tuple,
        kwargs: dict,
        timeout: Optional[float],
        response_capacity: Optional[int],
    ) -> Any:
        return self._run(
            lambda client: client._call_remote(name, args, kwargs, timeout, response_capacity)
        )

    def _begin_remote(
        self,
        name: str,
        parts: frames.Parts,
        timeout: Optional[float],
        response_capacity: Optional[int],
        may_block: bool,
    ) -> Optional[Future]:
        return self._start(
            lambda client: client._begin_remote(name, parts, timeout, response_capacity, may_block)
        )


class GroupFunction:
    """A function that all workers of a group have, made by Group.function(). The arguments are those of Client's methods."""

    def __init__(self, group: Group, name: str) -> None:
        """For Group.function()."""
        self._group = group
        self._name = name

    @property
    def name(self) -> str:
        """The function's name."""
        return self._name

    def __call__(self, data: Any = b"", **options: Any) -> Any:
        """As Client.call()."""
        return self._group.call(self._name, data, **options)

    def submit(self, data: Any = b"", **options: Any) -> Future:
        """As Client.submit()."""
        return self._group.submit(self._name, data, **options)

    async def acall(self, data: Any = b"", **options: Any) -> Any:
        """As Client.acall()."""
        return await self._group.acall(self._name, data, **options)

    def map(
        self,
        inputs: Iterable[Any],
        *,
        ordered: bool = True,
        max_in_flight: Optional[int] = None,
        progress: Optional[mapping.Progress] = None,
        **options: Any,
    ) -> Iterator[Any]:
        """As RemoteFunction.map(), of data; the other options are those of Client.submit(), for each call."""
        if max_in_flight is None:
            max_in_flight = self._group._default_in_flight()
        return mapping.run(
            lambda data: self.submit(data, **options),
            inputs,
            ordered=ordered,
            max_in_flight=max_in_flight,
            progress=progress,
        )

    def __repr__(self) -> str:
        return "<invoker.GroupFunction %s>" % self._name
