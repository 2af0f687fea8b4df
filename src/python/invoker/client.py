"""Client: a session with a worker, and the functions of that worker."""

from __future__ import annotations

import os
from typing import Dict, Optional, Union

from invoker._calls import arguments, leasing
from invoker._calls.closing import Closing, beside
from invoker._calls.connecting import ClusterCredentials, Connecting, Credentials, Path
from invoker._calls.native_calls import NativeCalls
from invoker._native import _invoker, logs
from invoker.errors import InvalidArgument
from invoker.function import Functions
from invoker.group import Group
from invoker.lease import Lease
from invoker.usage import Capacity


class Client(Functions, Closing):
    """A session with a worker, made by connect(). A context manager; close() ends it.

    Any thread may use it. A call sends its data before it returns; the data is not referred to afterwards.

    Arguments that calls have in common:

    name: the function's name, as functions() lists it. NotFound for any other.
    data: any bytes-like object: bytes, bytearray, memoryview, array, numpy array of any plain dtype and shape.
        A C-contiguous one is sent from where it is, another one is copied first, in C order. TypeError for
        a str: encode it first. What is larger than max_payload is registered, for the executor to read it where it is;
        submit() and acall() copy it first.
    timeout: seconds from the start of the call to its end, waiting for room in the windows included; then
        DeadlineExceeded. None: none.
    response_capacity: bytes of response to make room for; None: as many as data has, or out=, or 1/64 of
        the window, whichever is most. A longer response is ResourceExhausted, and the message says how much
        it needs.
    out: a writable C-contiguous buffer to copy the response into. The result is then its beginning. Too
        small for the response: ResourceExhausted with both sizes, out unchanged. With call() the executor writes to one
        that is larger than max_payload.
    dtype: a numpy dtype. The result is then a 1-D array of it.
    retry: for calls of a Group only (there: how often to try again, on another executor, a call whose executor was
        lost). InvalidArgument for a Client.

    The result is a writable memoryview, or array, of fresh memory that belongs to the caller.

    Errors are those of invoker.errors. Each has .fate, which says whether the function ran.
    """

    def __init__(self, calls: NativeCalls) -> None:
        """For connect(), Group and Lease."""
        Functions.__init__(self, calls, lambda: leasing.take(calls.worker()))
        self._native: _invoker.NativeClient = calls.native  # type: ignore[assignment]

    def ping(self, size: int = 0, *, timeout: Optional[float] = None) -> float:
        """A round trip of size bytes that runs no function. Returns its seconds."""
        arguments.check_call(timeout, None)
        return self._native.ping(arguments.whole("size", size, least=0), timeout)

    def capacity(self) -> Capacity:
        """The cores and memory that the worker has to lease, and how much is free. Blocks for a round trip."""
        return Capacity(**self._calls.worker().capacity())

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
            memory by cgroups, a function that uses more ends the lease. Elsewhere an allocation beyond it fails, which in
            Python is a MemoryError, and the lease goes on.
        hot_timeout: seconds for which an executor busy-polls after a call before it sleeps; implies polling="adaptive".
        ttl: seconds after which the lease ends in any case; None: the most that the worker gives.
        polling: "hot", "warm" or "adaptive": whether executors busy-poll while they have nothing to do; None: the worker's way.
        call_limit: seconds for a call at most. A function that runs longer ends the lease. None: the worker's most.
        wait: seconds to wait in line if not enough is free, math.inf for ever. Ctrl-C ends the wait.
        tenant: the name on the bill.
        python: executors that can run Python functions (Lease.register()); None: if the worker has such.

        The lease ends by Lease.close(), when this process ends, or when a function crashes or breaks a limit.

        Raises ResourceExhausted if not enough is free, now or after `wait`; InvalidArgument for more than the worker has at
        all; FailedPrecondition for Python executors of a worker that has none.
        """
        calls = leasing.take(
            self._calls.worker(),
            executors,
            memory,
            hot_timeout=hot_timeout,
            ttl=ttl,
            polling=polling,
            call_limit=call_limit,
            wait=wait,
            tenant=tenant,
            python=python,
        )
        return Lease(calls, Client)

    async def alease(self, *arguments: Any, **terms: Any) -> Lease:
        """Like lease(), from asyncio. A lease that comes after the task was cancelled is given back."""
        return await beside(self.lease, *arguments, **terms)

    def close(self) -> None:
        """Ends calls under way, on any thread, with Cancelled, and closes the session.

        Blocks for a round trip to the server. Closing again does nothing; other methods then raise
        FailedPrecondition. Ends the lease that register() has taken; leases of lease() stay.
        """
        Functions.close(self)
        self._calls.close()

    def __repr__(self) -> str:
        if self._native.closed:
            return "<invoker.Client closed>"
        if self._native.forked:
            return "<invoker.Client of another process>"
        return "<invoker.Client over %s, %s>" % (self.provider, self.notification)

    @property
    def provider(self) -> str:
        """The name of the libfabric provider."""
        return self._native.provider

    @property
    def fabric_choice(self) -> str:
        """The provider and why it was taken, for people."""
        return self._native.fabric_choice

    @property
    def notification(self) -> str:
        """"write_imm" or "send_after_write"."""
        return self._native.notification

    @property
    def data_auth(self) -> str:
        """How much of each message is under a keyed tag: "off", "header" or "full"."""
        return self._native.data_auth

    def dropped_responses(self) -> Dict[str, int]:
        """How much came in that was no response to a call of this client's, by reason."""
        return self._native.dropped_responses()

    @property
    def downgrade_reason(self) -> str:
        """Empty, or why write_imm was given up for send_after_write."""
        return self._native.downgrade_reason


def connect(
    server: Optional[str] = None,
    *,
    provider: Optional[str] = "auto",
    fabric_address: Optional[str] = None,
    notify: str = "auto",
    data_auth: str = "off",
    window: Optional[int] = None,
    connect_timeout: float = 10.0,
    hot_timeout: float = 0.001,
    tls_ca: Optional[Path] = None,
    tls_cert: Optional[Path] = None,
    tls_key: Optional[Path] = None,
    tls_server_name: Optional[str] = None,
    token_file: Optional[Path] = None,
    plaintext: bool = False,
    peer_timeout: float = 1.0,
    pieces_up_to: Optional[int] = None,
    reconnect: Optional[bool] = None,
    cluster_tls_ca: Optional[Path] = None,
    cluster_tls_cert: Optional[Path] = None,
    cluster_tls_key: Optional[Path] = None,
    cluster_password_file: Optional[Path] = None,
    cluster_plaintext: bool = False,
) -> Union[Client, Group]:
    """Opens a session with the worker at server, "HOST:PORT", and proves its data path.

    With several servers, "HOST:PORT,HOST:PORT", a session with each: the result is a Group, which gives each call to the
    one with the fewest under way. With one it is a Client. "file:///PATH" names a file with a server on each line, and
    "etcd://HOST:PORT,HOST:PORT/NAME" a cluster (docs/guide/cluster.md): a Group that follows the members, which join and
    leave. A Group starts once one of its servers is there, and connects to the others as soon as they are.

    server: None: INVOKER_CLUSTER, which a job of `invoker up` sets, or else INVOKER_SERVER.
    provider: the libfabric provider, one that the worker offers; "auto" or None: the best that both sides
        have, and the next if that does not work. Client.fabric_choice says which it was, and why.
    fabric_address: this side's IP address, interface or libfabric domain, for the fabrics that have it; None:
        the one that routes to the worker.
    notify: how a peer learns of a write: "write_imm", "send_after_write", or "auto": write_imm if a probe
        proves it.
    data_auth: how much of each message is to be under a keyed tag at least, against peers that forge them: "off",
        "header", "full". A worker may want more; Client.data_auth tells.
    window: bytes per direction, a power of two and at most the worker's; None: the worker's.
    connect_timeout: seconds for each step of connecting.
    hot_timeout: seconds for which a waiting thread busy-polls before it sleeps. Longer: lower latency of
        slow functions, more CPU.
    tls_ca: file with the certificates (PEM) of the authorities that sign the worker's. Requests to its bootstrap are
        then encrypted. None: INVOKER_TLS_CA; the others below have such variables too (INVOKER_TOKEN_FILE, INVOKER_PLAINTEXT=1).
    tls_cert, tls_key: files with this side's own certificate and its private key, for workers that ask for one.
    tls_server_name: the name that the worker's certificate has, where that is not the host in server.
    token_file: file, readable by no other user, whose first line is the token to show.
    plaintext: connect without encryption also beyond this machine, on a trusted network.
    peer_timeout: seconds within which calls end once the worker has died, been stopped or been cut off; at
        least 0.02, and math.inf for as long as the worker says. Time in which this process itself was stopped
        does not count.
    pieces_up_to: payloads of up to so many bytes go in pieces where the fabric can send them so (docs/design/performance.md); 0:
        each message in one write. None: a short trial decides.
    reconnect: connect again, in the background, to a worker that was lost. None: if there are several. With
        True and one server the result is a Group of one. A Client that has lost its session stays so. With False a
        Group has the servers of the moment: all must be there, and it follows no cluster.
    cluster_tls_ca, cluster_tls_cert, cluster_tls_key: as those without "cluster_", for etcd. None: INVOKER_CLUSTER_TLS_CA
        and so on.
    cluster_password_file: file, readable by no other user, whose first line is USER:PASSWORD, for etcd.
    cluster_plaintext: connect to etcd without encryption also beyond this machine, on a trusted network.

    Blocks without the GIL, for at most a few connect_timeout, and four seconds more for each fabric that does
    not work; Ctrl-C takes effect only after that. Raises an InvokerError that says which step failed:
    Unavailable if no worker answers there or no fabric works, FailedPrecondition if the two sides do not match,
    Unauthenticated if one does not accept the other's certificate or the worker wants another token,
    InvalidArgument for an option out of its range.
    """
    if window is not None and arguments.whole("window", window) <= 0:
        raise InvalidArgument("window=%d is not a power of two, in bytes" % window)
    options = (
        arguments.optional_text("provider", provider),
        arguments.optional_text("fabric_address", fabric_address),
        arguments.text("notify", notify),
        arguments.text("data_auth", data_auth),
        arguments.whole("window", window or 0),
        arguments.seconds_from("connect_timeout", connect_timeout, zero=False),
        arguments.seconds_from("hot_timeout", hot_timeout, zero=True),
        Credentials.of(tls_ca, tls_cert, tls_key, tls_server_name, token_file, plaintext),
        arguments.seconds_from("peer_timeout", peer_timeout, zero=False),
        None if pieces_up_to is None else arguments.whole("pieces_up_to", pieces_up_to, least=0),
        ClusterCredentials.of(
            cluster_tls_ca, cluster_tls_cert, cluster_tls_key, cluster_password_file, cluster_plaintext
        ),
    )
    if server is None:
        server = os.environ.get("INVOKER_CLUSTER") or os.environ.get("INVOKER_SERVER")
    if server is None:
        raise InvalidArgument("connect() has no address, and neither INVOKER_CLUSTER nor INVOKER_SERVER is set")
    way = Connecting(arguments.text("server", server).strip(), *options)
    several = "," in way.server or "://" in way.server
    logs.follow()
    if not several and not reconnect:
        return Client(NativeCalls(_invoker.connect(way), way))
    native = _invoker.connect_group(way, reconnect is None or bool(reconnect))
    return Group(NativeCalls(native, way), Client, lambda calls: Lease(calls, Client))


async def aconnect(server: Optional[str] = None, **options: Any) -> Union[Client, Group]:
    """Like connect(), from asyncio. A session that opens after the task was cancelled is closed."""
    return await beside(connect, server, **options)
