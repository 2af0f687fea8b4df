"""Group: several sessions as one, each call going to the one with the fewest under way."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Optional

from invoker._calls import leasing
from invoker._calls.closing import Closing, beside
from invoker._calls.connecting import Connecting
from invoker._calls.lease_calls import LeaseCalls
from invoker._calls.native_calls import NativeCalls
from invoker._native import _invoker
from invoker.function import Functions
from invoker.usage import Capacity


def _ways(native: _invoker.NativeGroup, base: Connecting) -> List[Connecting]:
    """To the workers that are left."""
    return [base._replace(server=server) for server in native.servers()]


def _take(native: _invoker.NativeGroup, base: Optional[Connecting], *terms: Any, **options: Any) -> LeaseCalls:
    """A lease on the workers that are left, or on the members of the cluster."""
    assert base is not None
    if options.get("python") is None:
        options["python"] = native.leases_python()
    if "://" not in base.server:
        base = base._replace(server=",".join(native.servers()))
    return leasing.take(base, *terms, **options)


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

    def __init__(
        self,
        calls: NativeCalls,
        make_client: Callable[[NativeCalls], Any],
        make_lease: Optional[Callable[[LeaseCalls], Any]] = None,
    ) -> None:
        """For connect() and Lease."""
        Functions.__init__(self, calls, functools.partial(_take, calls.native, calls.way))
        self._native: _invoker.NativeGroup = calls.native  # type: ignore[assignment]
        self._make_client = make_client
        self._make_lease = make_lease
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
        """Like Client.lease(), of executors on all workers together; in a cluster, on all its members.

        Each executor goes where the most cores are free, as far as that is known: members of a cluster publish it, and the
        better of two that are picked at random gets it. What one worker refuses, the others are asked for. To wait in line
        for several workers means to take what they have in the order of their addresses, and to hold it meanwhile. In a
        cluster the members are looked at anew every five seconds, and those that have joined are asked, too.

        Further terms:

        at_least: fewer executors than asked for will do, down to so many.
        labels: only members of a cluster that have all of these, as a dict.
        spread: "server" or the name of a label: the executors are spread over the servers, or over the label's values, as
            evenly as what is free allows.
        replace: executors of a worker that was lost are replaced in the background, with the functions that were registered
            or uploaded. Calls that were under way there fail as they do without it, and what was put there is lost.

        NotFound if no member has the labels.
        """
        assert self._make_lease is not None
        return self._make_lease(_take(self._native, self._calls.worker(), *arguments, **options))

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
