"""connect(): the way to a worker, or to several."""

from __future__ import annotations

from typing import Optional, Union

from invoker._calls import arguments
from invoker._calls.credentials import Credentials, Path
from invoker._calls.leasing import Connecting
from invoker.client import Client
from invoker.errors import InvalidArgument
from invoker.group import Group


def connect(
    server: str,
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
) -> Union[Client, Group]:
    """Opens a session with the worker at server, "HOST:PORT", and proves its data path.

    With several servers, "HOST:PORT,HOST:PORT", a session with each: the result is a Group, which gives each call to the
    one with the fewest under way. With one it is a Client.

    provider: the libfabric provider, one that the worker offers; "auto" or None: the best that both sides
        have, and the next if that does not work. Client.fabric_choice says which it was, and why.
    fabric_address: this side's IP address, interface or libfabric domain, for the fabrics that have it; None:
        the one that routes to the worker.
    notify: how a peer learns of a write: "write_imm", "send_after_write", or "auto": write_imm if a probe
        proves it.
    data_auth: how much of each message is to be under a keyed tag at least, against peers that forge them: "off",
        "header", "full". A worker may want more; Client.data_auth says what it is.
    window: bytes per direction, a power of two and at most the worker's; None: the worker's.
    connect_timeout: seconds for each step of connecting.
    hot_timeout: seconds for which a waiting thread busy-polls before it sleeps. Longer: lower latency of
        slow functions, more CPU.
    tls_ca: file with the certificates (PEM) of the authorities that sign the worker's: what is said to its bootstrap is
        encrypted. None: INVOKER_TLS_CA; the others below have such variables too (INVOKER_TOKEN_FILE, INVOKER_PLAINTEXT=1).
    tls_cert, tls_key: files with this side's own certificate and its private key, for workers that ask for one.
    tls_server_name: the name that the worker's certificate has, where that is not the host in server.
    token_file: file, readable by nobody else, whose first line is the token to show.
    plaintext: connect without encryption also beyond this machine, on a trusted network.
    peer_timeout: seconds within which calls end once the worker has died, been stopped or been cut off; at
        least 0.02, and math.inf for as long as the worker says. Time in which this process itself was stopped
        does not count.
    pieces_up_to: payloads of up to so many bytes go in pieces where the fabric can send them so (docs/design/performance.md); 0:
        each message in one write. None: a short trial decides.
    reconnect: connect again, in the background, to a worker that was lost. None: if there are several. With
        True and one server the result is a Group of one. A Client that has lost its session stays so.

    Blocks without the GIL, for at most a few connect_timeout, and four seconds more for each fabric that does
    not work; Ctrl-C takes effect only after that. Raises an InvokerError that says which step failed:
    Unavailable if nobody answers there or no fabric works, FailedPrecondition if the two sides do not match,
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
    )
    addresses = [address.strip() for address in arguments.text("server", server).split(",")]
    clients = []
    try:
        for address in addresses:
            way = Connecting(address, *options)
            clients.append(Client(way.connect(), way))
    except BaseException:
        for client in clients:
            client.close()
        raise
    if len(clients) == 1 and not reconnect:
        return clients[0]
    return Group(clients, reconnect=reconnect is None or reconnect)
