"""Group: several sessions as one, each call going to the one with the fewest under way."""

from __future__ import annotations

import functools
from concurrent.futures import Future
from typing import Any, Callable, Dict, List, Optional, Union, overload

from invoker._calls import leasing
from invoker._calls.closing import Closing
from invoker._calls.session import Session
from invoker._calls.session_group import SessionGroup
from invoker.function import Functions, GroupFunction
from invoker.remote_function import RemoteFunction
from invoker.usage import Capacity


class Group(Functions, Closing):
    """Several sessions as one, made by connect() with several servers. A context manager; close() ends them all.

    A call goes to the session with the fewest calls under way that are this group's; of those that are equal, in turn. A
    session whose worker has gone gets no more calls while another one works. Calls that are under way there then fail, with
    Unavailable: nothing is retried in silence, but with retry=. The group connects again to a worker that has gone, in the
    background, as soon as it is there (connect()'s reconnect=); a lease does not, since the memory of its
    executors is gone.

    The arguments of calls are as for Client, and retry: how often to try again, on another session, a call that has
    ended because its worker was lost or takes no more calls. To set it is to say that the function may run more than
    once. Failures of functions are never tried again. timeout is that of all tries together. Any thread.
    """

    def __init__(self, calls: SessionGroup, make_client: Callable[[Session], Any]) -> None:
        """For connect() and Lease."""
        Functions.__init__(
            self, calls, functools.partial(leasing.take_on_one_of, calls.sessions, leasing.take)
        )
        self._calls = calls
        self._make_client = make_client
        self._clients: Dict[Session, Any] = {}

    @property
    def clients(self) -> List[Any]:
        """The sessions, as Clients, in the order of the servers. They are the group's to close."""
        return [self._client(session) for session in self._calls.sessions]

    def call(self, name: str, data: Any = b"", **options: Any) -> Any:
        """Like Client.call(), on one of the sessions."""
        return self._calls.call(name, data, **options)

    def submit(self, name: str, data: Any = b"", **options: Any) -> Future:
        """Like Client.submit(), on one of the sessions. With retry, data stays as it is until the future has ended."""
        return self._calls.submit(name, data, **options)

    async def acall(self, name: str, data: Any = b"", **options: Any) -> Any:
        """Like Client.acall(), on one of the sessions."""
        return await self._calls.acall(name, data, **options)

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
        for session in self._calls.sessions:
            # So that a name which one of them lacks is found out here.
            session.handle(function)
        return GroupFunction(self._calls, function)

    def functions(self) -> List[str]:
        """The names of the functions that all workers have."""
        first, *others = [client.functions() for client in self.clients]
        return [name for name in first if all(name in names for names in others)]

    def ping(self, size: int = 0, *, timeout: Optional[float] = None) -> float:
        """The longest of a round trip with each session, in seconds."""
        return max(client.ping(size, timeout=timeout) for client in self.clients)

    def lease(self, *arguments: Any, **options: Any) -> Any:
        """Like Client.lease(): all executors on one worker, that with the most free cores among those which can give them.

        If none has enough free and the lease is to wait in line, it does so on that one. Spread over several workers, a
        lease is several: take one of each of `clients`.
        """
        return leasing.take_on_one_of(
            self._calls.sessions,
            lambda session, *terms, **named: self._client(session).lease(*terms, **named),
            *arguments,
            **options,
        )

    def capacity(self) -> Any:
        """Like Client.capacity(), of all workers together."""
        every = [session.worker().capacity() for session in self._calls.sessions]
        # A flag is set if any is; counts add up.
        return Capacity(
            **{
                name: (any if isinstance(value, bool) else sum)(each[name] for each in every)
                for name, value in every[0].items()
            }
        )

    def close(self) -> Any:
        """Ends calls under way and every session."""
        Functions.close(self)
        for client in list(self._clients.values()):
            Functions.close(client)
        self._calls.close()

    def __len__(self) -> int:
        return len(self._calls.sessions)

    def __repr__(self) -> str:
        return "<invoker.%s of %d>" % (type(self).__name__, len(self))

    @property
    def max_payload(self) -> int:
        """Largest payload that every session takes, in bytes."""
        return min(session.native.max_payload for session in self._calls.sessions)

    def _client(self, session: Session) -> Any:
        """The same each time while the session is one of the group's."""
        for gone in set(self._clients) - set(self._calls.sessions):
            self._clients.pop(gone, None)
        return self._clients.setdefault(session, self._make_client(session))
