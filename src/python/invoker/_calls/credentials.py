"""What a client shows a worker, and knows it by."""

from __future__ import annotations

import os
from typing import NamedTuple, Optional, Union

from invoker._calls import arguments

Path = Union[str, "os.PathLike[str]"]


class Credentials(NamedTuple):
    """Empty fields are taken from the environment by the native half: INVOKER_TLS_CA and so on."""

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
        """Of what a caller has given."""
        return cls(
            path("tls_ca", tls_ca),
            path("tls_cert", tls_cert),
            path("tls_key", tls_key),
            arguments.optional_text("tls_server_name", tls_server_name),
            path("token_file", token_file),
            bool(plaintext),
        )


def path(name: str, value: Optional[Path]) -> str:
    """The name of a file as text; None: "" """
    if value is None:
        return ""
    return arguments.text(name, os.fsdecode(value) if isinstance(value, os.PathLike) else value)
