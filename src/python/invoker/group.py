"""Group: several sessions as one, each call going to the one with the fewest under way."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Optional

from invoker._calls import leasing
from invoker._calls.closing import Closing, beside
from invoker._calls.connecting import Connecting
from invoker._calls.native_calls import NativeCalls
from invoker._native import _invoker
from invoker.function import Functions
from invoker.usage import Capacity


def _ways(native: _invoker.NativeGroup, base: Connecting) -> List[Connecting]:
    """To the workers that are left."""
    return [base._replace(server=server) for server in native.servers()]


def _take_on_one_of_all(native: _invoker.NativeGroup, base: Optional[Connecting]) -> Any:
    assert base is not None
    return leasing.take_on_one_of(_ways(native, base), leasing.take)


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

    def __init__(self, calls: NativeCalls, make_client: Callable[[NativeCalls], Any]) -> None:
        """For connect() and Lease."""
        Functions.__init__(
            self, calls, functools.partial(_take_on_one_of_all, calls.native, calls.way)
        )
        self._native: _invoker.NativeGroup = calls.native  # type: ignore[assignment]
        self._make_client = make_client
        # By session.
        self._clients: Dict[int, Any] = {}

    @property
    def clients(self) -> List[Any]:
        """The sessions, as Clients, in the order of the servers. They are the group's to close."""
        natives = {native.session: native for native in self._native.clients()}
        base = self._calls.way
        for session, native in natives.items():
            if session not in self._clients:
                way = None if base is None else base._replace(server=native.server)
                client = self._make_client(NativeCalls(native, way, owned=False))
                self._clients.setdefault(session, client)
        for gone in set(self._clients) - set(natives):
            self._clients.pop(gone, None)
        return [self._clients[session] for session in natives]

    def ping(self, size: int = 0, *, timeout: Optional[float] = None) -> float:
        """The longest of a round trip with each session, in seconds."""
        return max(client.ping(size, timeout=timeout) for client in self.clients)

    def lease(self, *arguments: Any, **options: Any) -> Any:
        """Like Client.lease(): all executors on one worker, that with the most free cores among those which can give them.

        If none has enough free and the lease is to wait in line, it does so on that one. Spread over several workers, a
        lease is several: take one of each of `clients`.
        """
        clients = {client._calls.worker(): client for client in self.clients}

        def take_on(way: Connecting, *terms: Any, **named: Any) -> Any:
            return clients[way].lease(*terms, **named)

        return leasing.take_on_one_of(list(clients), take_on, *arguments, **options)

    async def alease(self, *arguments: Any, **terms: Any) -> Any:
        """Like lease(), from asyncio. A lease that comes after the task was cancelled is given back."""
        return await beside(self.lease, *arguments, **terms)

    def capacity(self) -> Any:
        """Like Client.capacity(), of all workers together."""
        every = [way.capacity() for way in _ways(self._native, self._calls.worker())]
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
        return self._native.executors

    def __repr__(self) -> str:
        return "<invoker.%s of %d>" % (type(self).__name__, len(self))
