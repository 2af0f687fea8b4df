"""SessionGroup: several sessions as one, each call going to the one with the fewest under way."""

from __future__ import annotations

import functools
import threading
from concurrent.futures import Future
from typing import Any, Callable, List, Optional, Sequence, TypeVar

from invoker._calls import retry
from invoker._calls.caller import Caller, RemoteCall
from invoker._calls.futures import CallFuture
from invoker._calls.members import Member, Place
from invoker._calls.reconnect import Reconnector
from invoker._calls.session import Session
from invoker._calls.waiting import Waiting
from invoker._native import _invoker
from invoker._native.fork import renew_locks_of
from invoker._pickle import frames
from invoker.errors import InvokerError, Unavailable

_Result = TypeVar("_Result")


class SessionGroup(Caller):
    """The calls of a Group. Any thread."""

    def __init__(self, sessions: Sequence[Session], reconnect: bool = False) -> None:
        """reconnect: connect again to workers that were lost."""
        renew_locks_of(self)
        self.sessions = list(sessions)
        # Under the lock.
        self.members = [Member(*each) for each in enumerate(self.sessions)]
        # Sessions that another one has followed, and whose callbacks may still run.
        self._followed: List[Session] = []
        self._ending = False
        self._last = -1
        self._bell = _invoker.Bell()
        # The rings of the bell that have been looked at.
        self._heard = 0
        # Calls that wait for room.
        self.waiting = Waiting()
        for session in self.sessions:
            session.watch(self._bell)
        self._reconnector = Reconnector(self, self._bell) if reconnect else None
        if self._reconnector is not None:
            self._reconnector.start()

    def renew_locks(self) -> None:
        self._lock = threading.Lock()

    def call(self, name: str, data: Any = b"", **options: Any) -> Any:
        """Like Group.call()."""
        again = retry.Tries(self, options)
        while True:
            try:
                return self._run(lambda session: session.call(name, data, **again.options()))
            except InvokerError as error:
                if not again.may_try(error):
                    raise

    def submit(self, name: str, data: Any = b"", **options: Any) -> Future:
        """Like Group.submit()."""
        again = retry.Tries(self, options)

        def start(may_block: bool, whole: Optional[CallFuture]) -> Optional[Future]:
            return self._start(
                lambda session: session.start(
                    session.handle(name), data, may_block=may_block, whole=whole, **again.options()
                )
            )

        return retry.submit(again, start)

    async def acall(self, name: str, data: Any = b"", **options: Any) -> Any:
        """Like Group.acall()."""
        again = retry.Tries(self, options)
        while True:
            places: List[Place] = []
            try:
                places.append(self.take())
                session = places[0].member.session
                return await session.acall(session.handle(name), data, **again.options())
            except InvokerError as error:
                if places:
                    self._note(places[0].member, error)
                if not again.may_try(error):
                    raise
            finally:
                if places:
                    self._give_back(places.pop())

    def default_in_flight(self) -> int:
        return 2 * len(self.sessions)

    def call_remote(self, call: RemoteCall, args: tuple, kwargs: dict) -> Any:
        return self._run(lambda session: session.call_remote(call, args, kwargs))

    def begin_remote(self, call: RemoteCall, parts: frames.Parts, may_block: bool) -> Optional[Future]:
        return self._start(lambda session: session.begin_remote(call, parts, may_block))

    def close(self) -> None:
        """Ends calls under way and every session."""
        # All calls first: a thread that is waited for below may be waiting for room in another session, to try a call
        # again.
        with self._lock:
            self._ending = True
            sessions = self.sessions + self._followed
        for session in sessions:
            session.end_calls()
        if self._reconnector is not None:
            self._reconnector.stop()
        for session in sessions:
            session.close()

    def take(self) -> Place:
        """A place for a call, at the member with the fewest under way."""
        with self._lock:
            self._hear()
            count = len(self.members)
            alive = [member for member in self.members if not member.gone]
            if not alive and self._reconnector is not None:
                raise Unavailable(
                    "none of the %d sessions is left; the group connects again as soon as a worker is there" % count,
                    fate="not_sent",
                )
            # The next one in turn first, so that among equals each has its turn.
            member = min(
                alive or self.members,
                key=lambda one: (len(one.under_way), (one.index - self._last - 1) % count),
            )
            self._last = member.index
            return Place(member)

    def _hear(self) -> None:
        """Under the lock: notes which sessions have ended since the last time, so that no call has to find it out."""
        rings = self._bell.rings
        if rings != self._heard:
            self._heard = rings
            for member in self.members:
                member.gone = member.gone or member.session.has_ended()

    def ended_sessions(self) -> List[int]:
        """For the reconnector: those that have ended and that none has followed."""
        with self._lock:
            self._hear()
            return [member.index for member in self.members if member.session.has_ended()]

    def _give_back(self, place: Place) -> None:
        member = place.member
        with self._lock:
            place.leave()
            unused = member.followed and not member.under_way
        if unused and self._reconnector is not None:
            self._reconnector.unused(member.session)

    def _note(self, member: Member, error: Optional[BaseException]) -> None:
        if retry.shows_lost_session(error):
            with self._lock:
                member.gone = True
                followed = member.followed
            if self._reconnector is not None and not followed:
                self._reconnector.lost(member.index)

    def others_left(self) -> bool:
        """Whether a call may find a session whose worker has not gone."""
        with self._lock:
            self._hear()
            return not all(member.gone for member in self.members)

    def connect_again(self, index: int, longest_step: float) -> bool:
        """For the reconnector: a new session in the place of a lost one, whose calls go on."""
        with self._lock:
            old = self.members[index]
        way = old.session.way
        # A call of the old session may have reported it lost while it was being replaced.
        if way is None or not old.gone:
            return True
        quick = way._replace(connect_timeout=min(way.connect_timeout, longest_step))
        new = Session(quick.connect(), way)
        with self._lock:
            # The old session has been ended, or is about to be.
            ending = self._ending
            if not ending:
                self.members[index] = Member(index, new)
                self.sessions[index] = new
                self._followed = [session for session in self._followed if not session.has_gone()]
                self._followed.append(old.session)
                old.followed = True
            unused = not old.under_way
        new.watch(self._bell)
        if ending:
            new.close()
        elif unused and self._reconnector is not None:
            self._reconnector.unused(old.session)
        return True

    # A place is in a list, and out of it when it is given back: an exception that is kept keeps what frames refer to.

    def _run(self, call: Callable[[Session], _Result]) -> _Result:
        places = [self.take()]
        try:
            return call(places[0].member.session)
        except InvokerError as error:
            self._note(places[0].member, error)
            raise
        finally:
            self._give_back(places.pop())

    def _start(self, start: Callable[[Session], Optional[Future]]) -> Optional[Future]:
        places = [self.take()]
        future = None
        try:
            future = start(places[0].member.session)
            if future is not None:
                future.add_done_callback(functools.partial(self._ended, places))
            return future
        except InvokerError as error:
            self._note(places[0].member, error)
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
            self._note(place.member, future.exception())
        self._give_back(place)
