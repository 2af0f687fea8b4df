"""Describes the exceptions of served functions, for the native half."""

from __future__ import annotations

import logging
import traceback

_logger = logging.getLogger("invoker")


def describe(error: BaseException) -> str:
    """The message of a call that failed with an exception: its type and message, and then its place, innermost first.

    The room for it is short (255 bytes), so the whole traceback goes to the logger "invoker", at level INFO.
    """
    lines = [traceback.format_exception_only(type(error), error)[-1].strip()]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        lines.append('  File "%s", line %d, in %s' % (frame.filename, frame.lineno, frame.name))
    _logger.info("a function failed", exc_info=(type(error), error, error.__traceback__))
    # A name that came as bytes may be in it as half a surrogate pair, which UTF-8 does not have.
    return "\n".join(lines).encode("utf-8", "backslashreplace").decode("utf-8")
