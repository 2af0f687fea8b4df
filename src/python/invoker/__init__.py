"""Calls functions on remote workers in microseconds.

    import invoker

    with invoker.connect("10.0.0.7:7000") as client:
        view = client.call("echo", b"hello")        # a memoryview
        future = client.submit("echo", b"hello")    # a concurrent.futures.Future
        print(bytes(view), bytes(future.result()))

        with client.lease(executors=2) as lease:    # executors of one's own
            @lease.function                         # a Python function, shipped there
            def total(array):
                return array.sum()
            print(sum(total.map(arrays)))
        print(lease.usage)

    server = invoker.serve({"echo": bytes})         # functions of this process, for others

See connect() for the options, Client for the calls, Client.lease() and Lease for leases, serve() for serving, invoker.errors
for their exceptions.
"""

from invoker._native import __version__
from invoker.client import Client, aconnect, connect
from invoker.context import Context, context
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
    RemoteError,
    RemoteTraceback,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Unimplemented,
    UnknownError,
)
from invoker.function import Function
from invoker.futures import Executor, as_completed, wait
from invoker.group import Group
from invoker.lease import Lease
from invoker.metrics import MetricsServer, client_metrics, serve_metrics
from invoker.reference import Reference
from invoker.remote_function import RemoteFunction
from invoker.server import Pickled, Server, cancelled, pickled, serve
from invoker.typed import Typed, TypedFunction, typed
from invoker.usage import Capacity, Usage

__all__ = [
    "Aborted",
    "AlreadyExists",
    "Cancelled",
    "Capacity",
    "Client",
    "Context",
    "DataLoss",
    "DeadlineExceeded",
    "Executor",
    "FailedPrecondition",
    "Function",
    "FunctionFailed",
    "Group",
    "Internal",
    "InvalidArgument",
    "InvokerError",
    "Lease",
    "MetricsServer",
    "NotFound",
    "OutOfRange",
    "PermissionDenied",
    "Pickled",
    "Reference",
    "RemoteError",
    "RemoteFunction",
    "RemoteTraceback",
    "ResourceExhausted",
    "Server",
    "Typed",
    "TypedFunction",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "UnknownError",
    "Usage",
    "__version__",
    "aconnect",
    "as_completed",
    "cancelled",
    "client_metrics",
    "connect",
    "context",
    "pickled",
    "serve",
    "serve_metrics",
    "typed",
    "wait",
]
