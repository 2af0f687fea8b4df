"""The native half's messages, as records of the logger "invoker".

A record has the numbers of the lease and of the session that it is about, as `lease` and `session`; 0: none.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from typing import Optional

from invoker._native import _invoker

_logger = logging.getLogger("invoker")
_lock = threading.Lock()
_thread: Optional[threading.Thread] = None


def follow() -> None:
    """From now on native messages go to Python's logging. Once in each process; again: does nothing."""
    global _thread
    with _lock:
        if _thread is not None:
            return
        _invoker.start_logs()
        _thread = threading.Thread(target=_hand_on, name="invoker-log", daemon=True)
        _thread.start()


def _hand_on() -> None:
    while True:
        entries = _invoker.take_logs()
        if not entries:
            return
        for level, created, thread, lease, session, message in entries:
            if not _logger.isEnabledFor(level):
                continue
            extra = {"lease": lease, "session": session}
            record = _logger.makeRecord("invoker", level, "", 0, message, (), None, None, extra)
            record.created, record.msecs, record.thread = created, created % 1 * 1000, thread
            _logger.handle(record)


def _stop() -> None:
    # Threads of the native half must not wait for an interpreter that ends.
    _invoker.stop_logs()
    if _thread is not None:
        _thread.join()


def _after_fork() -> None:
    global _lock, _thread
    _lock = threading.Lock()
    _thread = None


atexit.register(_stop)
os.register_at_fork(after_in_child=_after_fork)
