"""One function over many inputs, with a bounded number of calls under way."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Iterator, Optional

from invoker._calls import arguments
from invoker._calls.futures import CallFuture
from invoker._native import _invoker

# The results that may wait for an earlier one, for each call that may be under way.
_MOST_WAITING = 4

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
    ordered: bool,
    max_in_flight: int,
    progress: Optional[Progress],
) -> Iterator[Any]:
    """The results of submit(input), for each of the inputs.

    inputs may be endless, and are asked for as calls are started: at most max_in_flight are under way, and with ordered at
    most a few times as many results wait for an earlier one. ordered: results in the order of the inputs; else as they
    come. progress(done, total): on the consumer's thread after each call that has ended; total is None if the inputs
    have no length. The first call that failed raises, in its place; others that are under way then run on.
    """
    arguments.whole("max_in_flight", max_in_flight, least=1)
    try:
        total: Optional[int] = len(inputs)  # type: ignore[arg-type]
    except TypeError:
        total = None
    return _results(submit, iter(inputs), ordered, max_in_flight, progress, total)


def _results(
    submit: Callable[[Any], CallFuture],
    inputs: Iterator[Any],
    ordered: bool,
    max_in_flight: int,
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
        most_started = next_out + (1 + _MOST_WAITING) * max_in_flight
        while more and len(under_way) < max_in_flight and started < most_started:
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
        for index in ended.wait(next(iter(under_way.values())).call):
            done += 1
            if progress is not None:
                progress(done, total)
            # Out of order, each takes the place that is next.
            waiting[index if ordered else next_out + len(waiting)] = under_way.pop(index)
