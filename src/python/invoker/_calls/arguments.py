"""Checks arguments of the package's functions. The native half would refuse them in terms of its own."""

from __future__ import annotations

import math
import numbers
import operator
from typing import Any, Optional

from invoker.errors import InvalidArgument

# More than anything counts here, and less than the native half's numbers end at.
_MOST = 2**62


def text(name: str, value: Any) -> str:
    """A str that can be sent."""
    if not isinstance(value, str):
        raise TypeError("%s must be a str, not %s" % (name, type(value).__name__))
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument("%s=%a cannot be sent: %s" % (name, value, error.reason)) from None
    return value


def optional_text(name: str, value: Any) -> str:
    """"" for None."""
    return "" if value is None else text(name, value)


def whole(name: str, value: Any, *, least: Optional[int] = None, most: int = _MOST) -> int:
    """A whole number: an int, or numpy's."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError("%s must be an int, not %s" % (name, type(value).__name__)) from None
    if least is not None and number < least:
        raise InvalidArgument("%s=%d: there must be at least %d" % (name, number, least))
    if abs(number) > most:
        raise InvalidArgument("%s=%d is not possible: %d is the most" % (name, number, most))
    return number


def seconds(name: str, value: Any) -> float:
    """A number of seconds of either sign; math.inf is one."""
    if not isinstance(value, numbers.Real):
        raise TypeError("%s must be a number of seconds, not %s" % (name, type(value).__name__))
    number = float(value)
    if math.isnan(number):
        raise InvalidArgument("%s is not a number" % name)
    return number


def seconds_from(name: str, value: Any, *, zero: bool) -> float:
    """A number of seconds that is positive, or, if zero is allowed, not negative."""
    number = seconds(name, value)
    if number < 0 or (number == 0 and not zero):
        raise InvalidArgument("%s=%r is not a positive number of seconds" % (name, value))
    return number


def check_call(timeout: Any, response_capacity: Any) -> None:
    """Checks the options of a call. The native half checks their ranges, which it knows."""
    if timeout is not None:
        seconds("timeout", timeout)
    if response_capacity is not None:
        whole("response_capacity", response_capacity)
