"""One function over many inputs, with a bounded number of calls under way."""

from __future__ import annotations

import functools
from concurrent.futures import Future
from typing import Any, Callable, Dict, Iterable, Iterator, Optional

from invoker._calls import arguments
from invoker._calls.ended import Ended

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
    submit: Callable[[Any], Future],
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
    submit: Callable[[Any], Future],
    inputs: Iterator[Any],
    ordered: bool,
    max_in_flight: int,
    progress: Optional[Progress],
    total: Optional[int],
) -> Iterator[Any]:
    ended = Ended()
    waiting: Dict[int, Future] = {}
    started = under_way = done = next_out = 0
    more = True
    try:
        while True:
            most_started = next_out + (1 + _MOST_WAITING) * max_in_flight
            while more and under_way < max_in_flight and started < most_started:
                try:
                    value = next(inputs)
                except StopIteration:
                    more = False
                    break
                submit(value).add_done_callback(functools.partial(ended.note, started))
                started += 1
                under_way += 1
            if next_out in waiting:
                result = waiting.pop(next_out).result()
                next_out += 1
                yield result
                continue
            if under_way == 0:
                return
            found = ended.get()
            assert found is not None
            index, future = found
            under_way -= 1
            done += 1
            if progress is not None:
                progress(done, total)
            # Out of order, each takes the place that is next.
            waiting[index if ordered else next_out] = future
            del found, future
    finally:
        ended.close()
