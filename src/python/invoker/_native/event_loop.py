"""The thread on which functions that are coroutines run: one event loop for the process."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from typing import Any, Coroutine, Optional, Set

# The call that this task runs: a native AsyncCall.
current: contextvars.ContextVar[Any] = contextvars.ContextVar("invoker_call", default=None)

_lock = threading.Lock()
_loop: Optional[asyncio.AbstractEventLoop] = None
_tasks: Set["asyncio.Task[None]"] = set()


def start(coroutine: Coroutine[Any, Any, Any], call: Any) -> None:
    """Runs the coroutine, and answers the call with its result. Any thread; for the native half."""
    loop = _running_loop()
    loop.call_soon_threadsafe(_begin, loop, coroutine, call)


def _begin(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], call: Any) -> None:
    task = loop.create_task(_run(coroutine, call))
    # The loop itself does not keep a task that waits.
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


async def _run(coroutine: Coroutine[Any, Any, Any], call: Any) -> None:
    current.set(call)
    try:
        result = await coroutine
    except BaseException as error:
        # This function's own line tells the reader nothing.
        if error.__traceback__ is not None:
            error.__traceback__ = error.__traceback__.tb_next
        del coroutine
        call.fail(error)
    else:
        del coroutine
        call.finish(result)


def _running_loop() -> asyncio.AbstractEventLoop:
    global _loop
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="invoker-functions", daemon=True).start()
        return _loop


def _forget() -> None:
    """A forked process has no such thread."""
    global _lock, _loop
    _lock = threading.Lock()
    _loop = None
    _tasks.clear()


os.register_at_fork(after_in_child=_forget)
