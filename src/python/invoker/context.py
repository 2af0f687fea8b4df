"""What a function can ask about the call that it runs."""

from __future__ import annotations

from typing import NamedTuple, Optional

from invoker._native import _invoker, event_loop
from invoker.errors import FailedPrecondition


class Context(NamedTuple):
    """The call that a function runs, as it was when context() was asked."""

    tenant: str
    """The caller's name in the worker's policy; "" without a policy."""
    call_id: str
    """This call's alone, for logs."""
    remaining: Optional[float]
    """Seconds until the call's deadline, less than 0 after it; None: it has none."""


def context() -> Context:
    """About the call that this thread or task runs, wherever the function is: in a server, or in an executor of a lease.

    FailedPrecondition outside of such functions.
    """
    call = event_loop.current.get()
    facts = _invoker.call_facts() if call is None else call.facts()
    if facts is None:
        raise FailedPrecondition("context() is for functions that a worker runs, on the thread or in the task that runs them")
    return Context(*facts)
