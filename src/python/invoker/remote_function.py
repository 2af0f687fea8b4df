"""RemoteFunction: a Python function that runs on a worker."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Callable, Iterable, Iterator, Optional

from invoker._calls import mapping
from invoker._calls.caller import Caller, RemoteCall


class RemoteFunction:
    """A Python function on a worker, called with Python objects as if it were here.

    Made by Client.remote(), and by function() and register() of a Client or a Lease. Any thread. Arguments and results are
    pickled. Numpy arrays in them, and other buffers that pickle protocol 5 takes out of band, travel beside the pickle: they
    are copied once into registered memory here, and are views of it there. There they are read-only, and valid during the
    call; a function that keeps one must copy it. Arrays in a result are views of memory of the result's own; they are
    writable unless the array that the function returned was not, such as its argument.

    An exception that the function raises is raised here, with its remote traceback as its cause. One that cannot travel
    is a RemoteError. Other errors are those of Client.call().
    """

    def __init__(
        self,
        caller: Caller,
        name: str,
        *,
        timeout: Optional[float] = None,
        response_capacity: Optional[int] = None,
        function: Optional[Callable[..., Any]] = None,
    ) -> None:
        """For Client.remote() and register()."""
        self._caller = caller
        self._call = RemoteCall(name, timeout, response_capacity)
        self._function = function
        self.__doc__ = function.__doc__ if function is not None else type(self).__doc__
        self.__wrapped__ = function

    @property
    def name(self) -> str:
        """Its name on the worker."""
        return self._call.name

    def options(
        self, *, timeout: Optional[float] = None, response_capacity: Optional[int] = None
    ) -> RemoteFunction:
        """The same function, called with these options, which mean what they do in Client.call().

        Without a response_capacity an answer that finds too little room is kept by the worker and fetched, and the next
        call makes as much room.
        """
        return RemoteFunction(
            self._caller,
            self._call.name,
            timeout=timeout,
            response_capacity=response_capacity,
            function=self._function,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function there and waits for what it returns, as Client.call() does."""
        return self._caller.call_remote(self._call, args, kwargs)

    def local(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function here. TypeError unless it was registered from here."""
        if self._function is None:
            raise TypeError("%s was not registered from here" % self.name)
        return self._function(*args, **kwargs)

    def submit(self, *args: Any, **kwargs: Any) -> Future:
        """Starts a call and returns the future of its result, as Client.submit() does."""
        return self._caller.start_remote(self._call, args, kwargs)

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function from asyncio. Never blocks the event loop but to pickle the arguments."""
        return await self._caller.acall_remote(self._call, args, kwargs)

    def map(
        self,
        *iterables: Iterable[Any],
        ordered: bool = True,
        max_in_flight: Optional[int] = None,
        progress: Optional[mapping.Progress] = None,
    ) -> Iterator[Any]:
        """The results of function(*inputs), for inputs from each of the iterables as by zip(), over all executors.

        Starts when the first result is asked for. The iterables may be endless: inputs are taken as calls are started.

        ordered: results in the order of the inputs, else as they come.
        max_in_flight: calls under way at most; None: two for each executor, and up to 32 of calls that take microseconds.
        progress: called with (calls that have ended, all inputs or None) on the consuming thread.

        The first call that failed raises, in its place, and ends the iteration; calls under way run on.
        """
        inputs = mapping.zipped(*iterables)
        return mapping.run(
            lambda args: self._caller.start_remote(self._call, args, {}),
            inputs,
            executors=self._caller.executors,
            ordered=ordered,
            max_in_flight=max_in_flight,
            progress=progress,
        )

    def __repr__(self) -> str:
        return "<invoker.RemoteFunction %s>" % self.name
