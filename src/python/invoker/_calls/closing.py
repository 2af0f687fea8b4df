"""What is closed at the end of a with statement, and of an async with statement."""

from __future__ import annotations

import asyncio
import functools
from types import TracebackType
from typing import Any, Callable, Optional, Type, TypeVar

_Self = TypeVar("_Self", bound="Closing")


class Closing:
    """A context manager, and one of asyncio, by its close()."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self,
        exception_type: Optional[Type[BaseException]],
        exception: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    async def __aenter__(self: _Self) -> _Self:
        return self

    async def __aexit__(
        self,
        exception_type: Optional[Type[BaseException]],
        exception: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await beside(self.close)


async def beside(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Runs function(*args, **options) on a thread of the loop's executor, and returns its result.

    If the task is cancelled meanwhile, the result is closed when it is there.
    """
    loop = asyncio.get_running_loop()
    waiting = loop.run_in_executor(None, functools.partial(function, *args, **options))
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        waiting.add_done_callback(_close_unwanted)
        raise


def _close_unwanted(waiting: "asyncio.Future[Any]") -> None:
    if waiting.cancelled() or waiting.exception() is not None:
        return
    unwanted = waiting.result()
    if isinstance(unwanted, Closing):
        waiting.get_loop().run_in_executor(None, unwanted.close)
