"""serve(): functions of this very process, for remote callers."""

from __future__ import annotations

import functools
import inspect
import weakref
from typing import Any, Callable, Generic, List, Mapping, NamedTuple, Optional, TypeVar, overload

from invoker._calls import arguments
from invoker._native import _invoker, event_loop, logs
from invoker._calls.closing import Closing
from invoker._calls.connecting import ClusterCredentials, Path, path
from invoker.errors import InvalidArgument
from invoker.typed import Typed

# A thread each; the native half takes more than any process can have.
_MOST_EXECUTORS = 2**16

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Pickled(Generic[_Function]):
    """A function that takes and returns Python objects, made by pickled()."""

    def __init__(self, function: _Function, concurrency: int = 0) -> None:
        """For pickled()."""
        if not callable(function):
            raise TypeError("%r is not callable" % (function,))
        self.function = function
        self.concurrency = concurrency
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function here, in this process."""
        return self.function(*args, **kwargs)


@overload
def pickled(function: _Function, *, concurrency: int = 0) -> Pickled[_Function]: ...


@overload
def pickled(*, concurrency: int = 0) -> Callable[[_Function], Pickled[_Function]]: ...


def pickled(function: Any = None, *, concurrency: int = 0) -> Any:
    """Marks a function as one of Python objects rather than bytes, for serve(). Also a decorator, with or without arguments.

    concurrency: as for typed().

    Callers reach it by Client.remote(). Arguments and results travel as pickles, numpy arrays beside them without being
    pickled: an array argument is a read-only view of registered memory, valid during the call. A function that keeps one
    must copy it; else the call fails. Exceptions travel too, with their tracebacks.

    Unpickling runs code that the caller sent: serve such functions only to callers that may run code here.
    """
    threads = arguments.whole("concurrency", concurrency)
    if function is None:
        return lambda later: Pickled(later, threads)
    return Pickled(function, threads)


class NativeForm(NamedTuple):
    """A function as the native half runs it."""

    call: Callable[..., Any]
    framed: bool
    signature: str
    concurrency: int
    coroutine: bool


def native_form(function: Callable[..., Any]) -> NativeForm:
    """Takes apart what typed() and pickled() say of a function; any other is one of bytes. For the package."""
    marked = isinstance(function, (Pickled, Typed))
    plain: Any = function.function if marked else function
    coroutine = _returns_coroutine(plain)
    # A coroutine runs beside others without a thread of its own.
    concurrency = function.concurrency if marked and not coroutine else 0
    signature = function.signature if isinstance(function, Typed) else ""
    return NativeForm(plain, isinstance(function, Pickled), signature, concurrency, coroutine)


def _returns_coroutine(function: Any) -> bool:
    """Whether it is an `async def` function, or an object whose __call__ is one."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def cancelled() -> bool:
    """Whether no caller waits any more for the answer of the function that this thread runs.

    Its caller has cancelled the call, or its deadline has passed. For functions that take long, wherever they run: in a
    server, or in an executor of a lease. False outside of such functions.
    """
    call = event_loop.current.get()
    return _invoker.cancelled() if call is None else call.cancelled()


def serve(
    functions: Mapping[str, Callable[..., Any]],
    *,
    listen: str = "127.0.0.1:0",
    provider: Optional[str] = "auto",
    fabric_address: Optional[str] = None,
    notify: str = "auto",
    data_auth: str = "off",
    window: Optional[int] = None,
    executors: int = 1,
    hot_timeout: float = 0.001,
    peer_timeout: float = 5.0,
    tls_cert: Optional[Path] = None,
    tls_key: Optional[Path] = None,
    tls_client_ca: Optional[Path] = None,
    token_file: Optional[Path] = None,
    policy: Optional[Path] = None,
    allow_plaintext: bool = False,
    metrics: str = "",
    cluster: str = "",
    advertise: str = "",
    labels: Optional[Mapping[str, str]] = None,
    cluster_tls_ca: Optional[Path] = None,
    cluster_tls_cert: Optional[Path] = None,
    cluster_tls_key: Optional[Path] = None,
    cluster_password_file: Optional[Path] = None,
    cluster_plaintext: bool = False,
) -> Server:
    """Serves functions of this process, by name, from now on, on threads of their own.

    functions: callables by their names: 1 to 128 characters out of A-Z a-z 0-9 _ . - A callable gets the request as a
        read-only memoryview, valid during the call, and returns something bytes-like, or None for an empty answer. With
        typed() it takes and returns values by a signature, with pickled() any Python objects.
    listen: where the bootstrap service listens, "HOST:PORT"; port 0 picks a free one, and Server.address says which. One
        that other machines can reach needs tls_cert, or allow_plaintext on a trusted network.
    provider, fabric_address: the fabrics to serve: "auto" or None for every one that works here, or names of libfabric
        providers, separated by commas; and their addresses, as for invoker_server.
    notify: as for connect().
    data_auth: as for connect(), for all sessions.
    window: the largest window per session and direction, in bytes, a power of two; None: 2 MiB.
    executors: threads that run functions. Python code of all of them shares one GIL.
    hot_timeout: seconds for which an executor busy-polls after the last message before it sleeps until the next. Longer:
        lower latency, more CPU.
    peer_timeout: seconds; a client that is silent for so long has lost its sessions. From 0.1 to a day. Longer than what
        clients allow the server, so that one that stands in a debugger for a moment lives.
    tls_cert, tls_key: files with the server's certificate and its private key (PEM): the bootstrap is encrypted.
    tls_client_ca: file with certificates of authorities: clients must have a certificate that one of them has signed.
    token_file: file, readable by no other user, with a token on each line: clients must show one of them.
    policy: file with the permissions of callers, as of `invoker_server --policy`.
    metrics: "HOST:PORT" where a page for people (/), metrics for Prometheus (/metrics) and the status (/status.json) are
        served, to readers that `listen` would answer, too; "": nowhere (docs/guide/watching.md).
    cluster: "etcd://HOST:PORT,HOST:PORT/NAME": the cluster that the server is a member of until it closes
        (docs/guide/cluster.md).
    advertise: "HOST:PORT" where clients of the cluster connect to; "": the address, or, where that is every interface, this
        machine's address on the way to etcd.
    labels: names and values that the cluster knows the server by.
    cluster_tls_ca, cluster_tls_cert, cluster_tls_key, cluster_password_file, cluster_plaintext: as for connect().

    A function that raises has failed: its caller gets the exception's type, message and place. It runs on an executor's
    thread, one call at a time for each executor, with the GIL. An `async def` function runs on an event loop in a thread of
    the package's, beside all others.

    Blocks without the GIL while it proves the fabrics. Raises an InvokerError with the reason.
    """
    entries = []
    for name, function in functions.items():
        arguments.text("a function's name", name)
        if not callable(function):
            raise TypeError("the function %r is not callable, but a %s" % (name, type(function).__name__))
        doc = (function.__doc__ or "").strip().partition("\n")[0]
        form = native_form(function)
        entries.append((name, form.call, form.framed, form.signature, doc, form.concurrency, form.coroutine))
    if window is not None and arguments.whole("window", window) <= 0:
        raise InvalidArgument("window=%d is not a power of two, in bytes" % window)
    logs.follow()
    native = _invoker.serve(
        entries,
        arguments.text("listen", listen),
        arguments.optional_text("provider", provider),
        arguments.optional_text("fabric_address", fabric_address),
        arguments.text("notify", notify),
        arguments.text("data_auth", data_auth),
        arguments.whole("window", window or 0),
        arguments.whole("executors", executors, least=1, most=_MOST_EXECUTORS),
        arguments.seconds_from("hot_timeout", hot_timeout, zero=True),
        arguments.seconds_from("peer_timeout", peer_timeout, zero=False),
        arguments.text("metrics", metrics),
        (
            path("tls_cert", tls_cert),
            path("tls_key", tls_key),
            path("tls_client_ca", tls_client_ca),
            path("token_file", token_file),
            path("policy", policy),
            bool(allow_plaintext),
        ),
        (
            arguments.text("cluster", cluster),
            ClusterCredentials.of(
                cluster_tls_ca, cluster_tls_cert, cluster_tls_key, cluster_password_file, cluster_plaintext
            ),
            arguments.text("advertise", advertise),
            {
                arguments.text("a label's name", name): arguments.text("a label", value)
                for name, value in (labels or {}).items()
            },
        ),
    )
    return Server(native)


class Server(Closing):
    """Functions that are being served, by serve(). A context manager; close() ends it, as does the end of the program.

    Any thread may use it, but a function of its own cannot close it. A forked process has no part in it.
    """

    def __init__(self, native: _invoker.NativeServer) -> None:
        """For serve()."""
        self._native = native
        self._ended = _invoker.Event()
        # Also runs when the interpreter exits.
        self._finalizer = weakref.finalize(self, native.let_go)

    @property
    def address(self) -> str:
        """Where the bootstrap service listens: what connect() takes."""
        return self._native.address

    @property
    def metrics_address(self) -> str:
        """Where the metrics are served, "HOST:PORT"; "": nowhere."""
        return self._native.metrics_address

    @property
    def providers(self) -> List[str]:
        """The libfabric providers that are served, the best first."""
        return self._native.providers

    @property
    def calls(self) -> int:
        """Calls that have been run. Waits for the functions that run now."""
        return self._native.calls_run()

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Blocks until another thread closes the server, or for timeout seconds. Ctrl-C ends it. True once closed."""
        return self._ended.wait(timeout)

    def close(self, *, drain_timeout: float = 5.0) -> None:
        """Ends serving: refuses calls, waits for the functions that run, and lets their responses leave.

        drain_timeout: seconds for the latter at most. Callers get Unavailable from then on. Closing again does nothing.
        """
        if self._finalizer.detach() is not None:
            try:
                self._native.close(drain_timeout)
            finally:
                if self._native.closed:
                    self._ended.set()
                else:
                    self._finalizer = weakref.finalize(self, self._native.let_go)

    def __repr__(self) -> str:
        if self._native.closed:
            return "<invoker.Server closed>"
        if self._native.forked:
            return "<invoker.Server of another process>"
        return "<invoker.Server at %s over %s>" % (self.address, ", ".join(self.providers))
