"""The exceptions of calls: InvokerError, and one subclass of it for each status.

Some are also the built-in exception that means the same, so `except TimeoutError` catches a deadline that passed.
"""

from __future__ import annotations

from typing import Optional


class InvokerError(Exception):
    """A call, or the opening of a client, failed. str() says why, and how to mend it.

    status: the status's name, such as "UNAVAILABLE". A constant of the class.
    fate: how far the call got, as far as can be known; no call is ever retried in silence:
        "not_sent"        the request never left
        "not_executed"    the worker answered that it did not run the function
        "maybe_executed"  the request left and no answer came
        "executed"        the function ran, and its answer is the error
        "unknown"         the error does not come from a call
    """

    status: str = "UNKNOWN"
    fate: str

    def __init__(self, message: str = "", *, fate: str = "unknown") -> None:
        super().__init__(message)
        self.fate = fate


class UnknownError(InvokerError):
    """An error that fits no other class."""


class FunctionFailed(InvokerError):
    """The function ran and said that it failed. The message holds its own, undecodable bytes replaced.

    code: the function's own code; -1 if it gave none.
    """

    code: int

    def __init__(self, message: str = "", *, fate: str = "executed", code: int = -1) -> None:
        super().__init__(message, fate=fate)
        self.code = code


class RemoteError(FunctionFailed):
    """A Python function raised an exception that cannot be raised here: its class is not there, or it does not travel.

    Its traceback, as text, is the cause (__cause__).

    type_name: the exception's type, with its module.
    """

    type_name: str

    def __init__(self, message: str = "", *, type_name: str = "", fate: str = "executed") -> None:
        super().__init__(message, fate=fate)
        self.type_name = type_name


class RemoteTraceback(Exception):
    """Where an exception was raised on a worker: the cause of one that a Python function raised there."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return '\n"""\n%s"""' % self.text


class Cancelled(InvokerError):
    """The call was under way when the client was closed."""

    status = "CANCELLED"


class InvalidArgument(InvokerError, ValueError):
    """An argument cannot be used: a payload larger than the window, an option out of its range."""

    status = "INVALID_ARGUMENT"


class DeadlineExceeded(InvokerError, TimeoutError):
    """The timeout passed first. Unless fate says otherwise the function may have run, or may still run."""

    status = "DEADLINE_EXCEEDED"


class NotFound(InvokerError, LookupError):
    """The worker has no function of that name. The message lists its functions."""

    status = "NOT_FOUND"


class AlreadyExists(InvokerError):
    """The thing to make exists already."""

    status = "ALREADY_EXISTS"


class PermissionDenied(InvokerError, PermissionError):
    """The worker does not allow this."""

    status = "PERMISSION_DENIED"


class ResourceExhausted(InvokerError):
    """Something is too small: response_capacity=, out= or the windows. The message has the sizes."""

    status = "RESOURCE_EXHAUSTED"


class FailedPrecondition(InvokerError):
    """Not possible now: a provider that the worker does not offer, a closed client, a forked process."""

    status = "FAILED_PRECONDITION"


class Aborted(InvokerError):
    """The operation was given up."""

    status = "ABORTED"


class OutOfRange(InvokerError):
    """Past the end of something."""

    status = "OUT_OF_RANGE"


class Unimplemented(InvokerError):
    """The worker, or this machine's libfabric, cannot do this."""

    status = "UNIMPLEMENTED"


class Internal(InvokerError):
    """A defect of Invoker, or of a library under it."""

    status = "INTERNAL"


class Unavailable(InvokerError, ConnectionError):
    """There is no worker, it has gone, or it is shutting down. Connect again, or to another one."""

    status = "UNAVAILABLE"


class DataLoss(InvokerError):
    """Bytes arrived changed."""

    status = "DATA_LOSS"


class Unauthenticated(InvokerError):
    """The worker accepts neither the token nor the certificate of this caller."""

    status = "UNAUTHENTICATED"


_CLASSES = {
    error.status: error
    for error in (
        UnknownError,
        Cancelled,
        InvalidArgument,
        DeadlineExceeded,
        NotFound,
        AlreadyExists,
        PermissionDenied,
        ResourceExhausted,
        FailedPrecondition,
        Aborted,
        OutOfRange,
        Unimplemented,
        Internal,
        Unavailable,
        DataLoss,
        Unauthenticated,
    )
}


def _from_status(status: str, message: str, fate: str, code: Optional[int]) -> InvokerError:
    if code is not None:
        return FunctionFailed(message, fate=fate, code=code)
    return _CLASSES.get(status, UnknownError)(message, fate=fate)
