"""The way to a worker: its address, the options of connect() and the credentials to show."""

from __future__ import annotations

import os
from typing import Any, Dict, NamedTuple, Optional, Union

from invoker._calls import arguments
from invoker._native import _invoker

Path = Union[str, "os.PathLike[str]"]


class Credentials(NamedTuple):
    """The native half takes empty fields from the environment: INVOKER_TLS_CA and so on."""

    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    tls_server_name: str = ""
    token_file: str = ""
    plaintext: bool = False

    @classmethod
    def of(
        cls,
        tls_ca: Optional[Path],
        tls_cert: Optional[Path],
        tls_key: Optional[Path],
        tls_server_name: Optional[str],
        token_file: Optional[Path],
        plaintext: bool,
    ) -> Credentials:
        """Checks the options of connect()."""
        return cls(
            path("tls_ca", tls_ca),
            path("tls_cert", tls_cert),
            path("tls_key", tls_key),
            arguments.optional_text("tls_server_name", tls_server_name),
            path("token_file", token_file),
            bool(plaintext),
        )


class ClusterCredentials(NamedTuple):
    """For etcd. The native half takes empty fields from the environment: INVOKER_CLUSTER_TLS_CA and so on."""

    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    password_file: str = ""
    plaintext: bool = False

    @classmethod
    def of(
        cls,
        tls_ca: Optional[Path],
        tls_cert: Optional[Path],
        tls_key: Optional[Path],
        password_file: Optional[Path],
        plaintext: bool,
    ) -> ClusterCredentials:
        """Checks the options of connect() and serve()."""
        return cls(
            path("cluster_tls_ca", tls_ca),
            path("cluster_tls_cert", tls_cert),
            path("cluster_tls_key", tls_key),
            path("cluster_password_file", password_file),
            bool(plaintext),
        )


class Connecting(NamedTuple):
    """The options of connect(), for one worker or for all of a group. The native half takes them by their places."""

    server: str
    provider: str = ""
    fabric_address: str = ""
    notify: str = "auto"
    data_auth: str = "off"
    window: int = 0
    connect_timeout: float = 10.0
    hot_timeout: float = 0.001
    credentials: Credentials = Credentials()
    peer_timeout: float = 1.0
    pieces_up_to: Optional[int] = None
    cluster: ClusterCredentials = ClusterCredentials()

    def capacity(self) -> Dict[str, Any]:
        """The fields of invoker.Capacity. Blocks for a round trip, without the GIL."""
        return _invoker.capacity(self)


def path(name: str, value: Optional[Path]) -> str:
    """The name of a file as text; None: "" """
    if value is None:
        return ""
    return arguments.text(name, os.fsdecode(value) if isinstance(value, os.PathLike) else value)
