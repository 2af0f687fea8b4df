"""Messages of protobuf by their names."""

from __future__ import annotations

from typing import Any


def find(name: str) -> Any:
    """The class of the messages with that full name. LookupError unless the module that protoc made of it has been imported."""
    try:
        from google.protobuf import symbol_database

        return symbol_database.Default().GetSymbol(name)
    except ImportError:
        raise LookupError("messages such as %s need the package protobuf" % name) from None
    except KeyError:
        raise LookupError("no class is known for messages of %s: import the module that protoc made for it" % name) from None
