"""Calls functions on remote workers in microseconds.

    import invoker

    with invoker.connect("10.0.0.7:7000") as client:
        view = client.call("echo", b"hello")        # a memoryview
        future = client.submit("echo", b"hello")    # a concurrent.futures.Future
        print(bytes(view), bytes(future.result()))

See connect() for the options, Client for the calls, invoker.errors for what they raise.
"""

# First: it loads the native half.
from invoker._load import __version__
from invoker.client import Client, Function, connect
from invoker.errors import (
    Aborted,
    AlreadyExists,
    Cancelled,
    DataLoss,
    DeadlineExceeded,
    FailedPrecondition,
    FunctionFailed,
    Internal,
    InvalidArgument,
    InvokerError,
    NotFound,
    OutOfRange,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Unimplemented,
    UnknownError,
)

__all__ = [
    "Aborted",
    "AlreadyExists",
    "Cancelled",
    "Client",
    "DataLoss",
    "DeadlineExceeded",
    "FailedPrecondition",
    "Function",
    "FunctionFailed",
    "Internal",
    "InvalidArgument",
    "InvokerError",
    "NotFound",
    "OutOfRange",
    "PermissionDenied",
    "ResourceExhausted",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "UnknownError",
    "__version__",
    "connect",
]
