"""client_metrics() and serve_metrics(): what the clients of this process have done, for Prometheus."""

from __future__ import annotations

import weakref
from typing import Optional

from invoker._calls import arguments
from invoker._calls.closing import Closing
from invoker._calls.connecting import Path, path
from invoker._native import _invoker


def client_metrics() -> str:
    """The calls of all clients of this process, in Prometheus's text format; those of closed clients, too.

    docs/guide/watching.md lists the metrics. Any thread. Waits for no call.
    """
    return _invoker.client_metrics()


def serve_metrics(
    listen: str = "127.0.0.1:0",
    *,
    tls_cert: Optional[Path] = None,
    tls_key: Optional[Path] = None,
    tls_client_ca: Optional[Path] = None,
    token_file: Optional[Path] = None,
    allow_plaintext: bool = False,
) -> MetricsServer:
    """Serves client_metrics() at /metrics, over HTTP, from now on, on threads without the GIL.

    listen: "HOST:PORT"; port 0 picks a free one, and MetricsServer.address says which. One that other machines can reach
        needs tls_cert, or allow_plaintext on a trusted network.
    tls_cert, tls_key: files with a certificate and its private key (PEM): connections are HTTPS.
    tls_client_ca: file with certificates of authorities: readers must have a certificate that one of them has signed.
    token_file: file, readable by no other user, with a token on each line: readers must show one of them.

    Raises InvalidArgument because of an option, AlreadyExists if the port is taken.
    """
    return MetricsServer(
        _invoker.NativeMetrics(
            arguments.text("listen", listen),
            path("tls_cert", tls_cert),
            path("tls_key", tls_key),
            path("tls_client_ca", tls_client_ca),
            path("token_file", token_file),
            bool(allow_plaintext),
        )
    )


class MetricsServer(Closing):
    """Metrics that are being served, by serve_metrics(). A context manager; close() ends it, as does the end of the program."""

    def __init__(self, native: _invoker.NativeMetrics) -> None:
        """For serve_metrics()."""
        self._native = native
        # Also runs when the interpreter exits.
        self._finalizer = weakref.finalize(self, native.close)

    @property
    def address(self) -> str:
        """Where it listens, "HOST:PORT"."""
        return self._native.address

    def close(self) -> None:
        """Ends serving, and waits for the answers that are under way. Closing again does nothing."""
        self._finalizer()

    def __repr__(self) -> str:
        return "<invoker.MetricsServer at %s>" % self.address
