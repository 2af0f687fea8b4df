"""Typed functions: called with values by a signature, the same in Python and C++."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Callable, Generic, Iterable, Iterator, Optional, TypeVar

from invoker._calls import arguments, futures, mapping
from invoker._calls.native_calls import NativeCalls
from invoker._native import _invoker
from invoker.errors import InvalidArgument

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Typed(Generic[_Function]):
    """A function with a signature, made by typed()."""

    def __init__(self, function: _Function, signature: str, concurrency: int = 0) -> None:
        """For typed()."""
        if not callable(function):
            raise TypeError("%r is not callable" % (function,))
        self.function = function
        self.signature = signature
        self.concurrency = concurrency
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__qualname__ = getattr(function, "__qualname__", self.__name__)
        self.__module__ = getattr(function, "__module__", type(function).__module__)

    def __call__(self, *args: Any) -> Any:
        """Calls the function here, in this process."""
        return self.function(*args)


def typed(signature: str, *, concurrency: int = 0) -> Callable[[_Function], Typed[_Function]]:
    """Gives a function a signature, for serve() and for Lease.register(). A decorator.

    signature: such as "(f64[:, :], f64) -> f64[:, :]"; docs/reference/typed_calls.md has the types. Callers in Python use
        typed(), callers in C++ Client::Function<...>.
    concurrency: 0: an executor runs one call at a time, on its own thread. Else it runs up to so many, each on a thread,
        beside its other functions; they share the GIL. An `async def` function needs none: it runs on an event loop of its
        own thread, beside the others.

    Arrays come as numpy arrays: read-only views of the request, valid until the answer; a function that keeps one must copy
    it, else the call fails. An exception that the function raises fails the call. ValueError if the text is no signature.
    """
    canonical = _invoker.Signature(arguments.text("signature", signature)).text
    threads = arguments.whole("concurrency", concurrency)
    return lambda function: Typed(function, canonical, threads)


class TypedFunction(_invoker.BoundTyped):
    """A typed function of a worker, or of all workers of a group, made by typed(). Any thread.

    Calling it calls the function there and waits, as Client.call() does. Arguments and the result are what the signature
    says; arrays are numpy arrays, copied once into the request, and the result's are views of the response's memory. TypeError
    or ValueError, and no call, if an argument is not what the signature says. Keeps the sessions alive, not open.
    """

    __slots__ = ("_calls", "_codec")

    def __new__(
        cls,
        calls: NativeCalls,
        name: str,
        signature: Optional[str] = None,
        *,
        timeout: Optional[float] = None,
        response_capacity: Optional[int] = None,
        retry: int = 0,
    ) -> TypedFunction:
        """For typed() of Client, Group and Lease."""
        handle = calls.find(name).handle
        workers = _invoker.Signature(handle.signature).text if handle.signature else ""
        if signature is not None:
            expected = _invoker.Signature(arguments.text("signature", signature)).text
            _invoker.check_signature(name, workers, expected)
        elif not workers:
            raise InvalidArgument("the worker's function %s takes and returns bytes, and has no signature: use call()" % name)
        codec = _invoker.Signature(workers)
        arguments.check_call(timeout, response_capacity)
        arguments.whole("retry", retry)
        function = super().__new__(cls, calls.native, handle, codec, timeout, response_capacity, retry)
        function._calls = calls
        function._codec = codec
        return function

    @property
    def name(self) -> str:
        """The function's name."""
        return self.handle.name

    @property
    def signature(self) -> str:
        """What it takes and returns."""
        return self._codec.text

    def options(
        self,
        *,
        timeout: Optional[float] = None,
        response_capacity: Optional[int] = None,
        retry: int = 0,
    ) -> TypedFunction:
        """The same function, called with these options, which mean what they do in Client.call().

        A result with arrays that is larger than the arguments needs a response_capacity: its bytes, which may be more than
        max_payload.
        """
        return TypedFunction(
            self._calls,
            self.name,
            self.signature,
            timeout=timeout,
            response_capacity=response_capacity,
            retry=retry,
        )

    def submit(self, *args: Any) -> Future:
        """Starts a call and returns the future of its result, as Client.submit() does."""
        return self._started(args)

    async def acall(self, *args: Any) -> Any:
        """Calls the function from asyncio. Never blocks the event loop."""
        return await futures.result_of(lambda may_block: self._start(args, may_block))

    def map(
        self,
        *iterables: Iterable[Any],
        ordered: bool = True,
        max_in_flight: Optional[int] = None,
        progress: Optional[mapping.Progress] = None,
    ) -> Iterator[Any]:
        """Like RemoteFunction.map()."""
        return mapping.run(
            self._started,
            mapping.zipped(*iterables),
            executors=self._calls.executors,
            ordered=ordered,
            max_in_flight=max_in_flight,
            progress=progress,
        )

    def _started(self, args: tuple) -> CallFuture:
        future = self._start(args, True)
        assert future is not None
        return future

    def _start(self, args: tuple, may_block: bool) -> Optional[CallFuture]:
        codec = self._codec
        return self._calls.dispatcher.start(
            lambda: self.begin(args, may_block),
            lambda view, session: codec.decode_result(view),
        )

    def __repr__(self) -> str:
        return "<invoker.TypedFunction %s%s>" % (self.name, self.signature)
