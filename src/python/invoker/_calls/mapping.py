"""One function over many inputs, with a bounded number of calls under way."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, Iterable, Iterator, Optional

from invoker._calls import arguments
from invoker._calls.futures import CallFuture
from invoker._native import _invoker

# The results that may wait for an earlier one, for each call that may be under way.
_MOST_WAITING = 4

# Where the program leaves it open how many calls are under way: work for so many seconds for each executor, but two calls at
# least and a few more at most. It is looked at after so many results.
_WORK = 250e-6
_LEAST_CALLS = 2
_MOST_CALLS = 32
_LOOKS_EVERY = 32

Progress = Callable[[int, Optional[int]], Any]


class zipped:
    """zip(*iterables), with a length if all have one."""

    def __init__(self, *iterables: Iterable[Any]) -> None:
        if not iterables:
            raise TypeError("map() needs inputs: give an iterable")
        self._iterables = iterables

    def __iter__(self) -> Iterator[tuple]:
        return zip(*self._iterables)

    def __len__(self) -> int:
        return min(len(each) for each in self._iterables)  # type: ignore[arg-type]


def run(
    submit: Callable[[Any], CallFuture],
    inputs: Iterable[Any],
    *,
    executors: Callable[[], int],
    ordered: bool,
    max_in_flight: Optional[int],
    progress: Optional[Progress],
) -> Iterator[Any]:
    """The results of submit(input), for each of the inputs.

    inputs may be endless, and are asked for as calls are started: at most max_in_flight are under way, and with ordered at
    most a few times as many results wait for an earlier one. None: as many as keep the executors busy. ordered: results
    in the order of the inputs; else as they come. progress(done, total): on the consumer's thread after each call that
    has ended; total is None if the inputs have no length. The first call that failed raises, in its place; others that
    are under way then run on.
    """
    if max_in_flight is not None:
        arguments.whole("max_in_flight", max_in_flight, least=1)
    try:
        total: Optional[int] = len(inputs)  # type: ignore[arg-type]
    except TypeError:
        total = None
    in_flight = _InFlight(executors) if max_in_flight is None else _Fixed(max_in_flight)
    return _results(submit, iter(inputs), ordered, in_flight, progress, total)


class _Fixed:
    """The number of calls that the program has said."""

    def __init__(self, most: int) -> None:
        self.most = most

    def note(self, ended: int) -> None:
        pass


class _InFlight(_Fixed):
    """The number of calls that keeps the executors busy: more of fast ones."""

    def __init__(self, executors: Callable[[], int]) -> None:
        super().__init__(_LEAST_CALLS * executors())
        self._executors = executors
        self._ended = 0
        self._since = time.perf_counter()

    def note(self, ended: int) -> None:
        """So many calls have ended."""
        self._ended += ended
        if self._ended < _LOOKS_EVERY:
            return
        now = time.perf_counter()
        # Executors may have come or gone.
        executors = self._executors()
        each = max(1e-9, (now - self._since) * executors / self._ended)
        self._ended, self._since = 0, now
        self.most = executors * max(_LEAST_CALLS, min(int(_WORK / each), _MOST_CALLS))


def _results(
    submit: Callable[[Any], CallFuture],
    inputs: Iterator[Any],
    ordered: bool,
    in_flight: _Fixed,
    progress: Optional[Progress],
    total: Optional[int],
) -> Iterator[Any]:
    ended = _invoker.EndedQueue()
    # By the numbers of their inputs.
    under_way: Dict[int, CallFuture] = {}
    waiting: Dict[int, CallFuture] = {}
    started = done = next_out = 0
    more = True
    while True:
        most = in_flight.most
        most_started = next_out + (1 + _MOST_WAITING) * most
        while more and len(under_way) < most and started < most_started:
            try:
                value = next(inputs)
            except StopIteration:
                more = False
                break
            under_way[started] = submit(value)
            under_way[started].watch(ended, started)
            started += 1
        if next_out in waiting:
            result = waiting.pop(next_out).result()
            next_out += 1
            yield result
            continue
        if not under_way:
            return
        indices = ended.wait(next(iter(under_way.values())).call)
        in_flight.note(len(indices))
        for index in indices:
            done += 1
            if progress is not None:
                progress(done, total)
            # Out of order, each takes the place that is next.
            waiting[index if ordered else next_out + len(waiting)] = under_way.pop(index)
