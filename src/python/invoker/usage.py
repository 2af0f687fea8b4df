"""Usage and Capacity: a lease's bill, and the cores and memory that a worker has to lease."""

from __future__ import annotations

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Usage:
    """What a lease has used. str() is its bill, a line for each.

    cause: why the lease ended: "released", "expired", "ttl", "crashed", "exited", "memory_limit", "call_limit", "server";
        "" if it has not ended; "unknown" if the worker has not said.
    reason: the same for people: which executor, function, signal or limit. Often empty if it was released.
    lease_time: seconds that the lease was held, times its executors.
    cpu_time: processor time of the executors' processes, in seconds, polling included.
    memory_byte_seconds: memory granted, times seconds.
    calls: calls of functions.
    function_time: seconds inside functions.
    polling_time: seconds of busy-polling.
    bytes_in, bytes_out: payloads of requests and of responses.

    The first three numbers are measured by the worker from outside the executors, the others are counted by these.

    A bill that the worker did not send has cause "unknown", and math.nan for every number: `known` is False then. The worker,
    if it is still there, has it all the same (`invoker usage`).
    """

    cause: str = ""
    reason: str = ""
    lease_time: float = 0.0
    cpu_time: float = 0.0
    memory_byte_seconds: int = 0
    calls: int = 0
    function_time: float = 0.0
    polling_time: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0

    @classmethod
    def unknown(cls, reason: str) -> Usage:
        """A bill that cannot be had, for this reason."""
        numbers = {field.name: math.nan for field in dataclasses.fields(cls) if field.name not in ("cause", "reason")}
        return cls(cause="unknown", reason=reason, **numbers)  # type: ignore[arg-type]

    @property
    def known(self) -> bool:
        """Whether the numbers are the worker's."""
        return self.cause != "unknown"

    def __str__(self) -> str:
        how = self.cause or "open"
        if self.reason:
            how += ": " + self.reason
        if not self.known:
            return "%-15s %s" % ("lease", how)
        rows = (
            ("lease", how),
            ("lease time", "%.3f executor-seconds" % self.lease_time),
            ("processor time", "%.3f s" % self.cpu_time),
            ("memory", "%.3f GiB-seconds" % (self.memory_byte_seconds / 2**30)),
            ("calls", "%d" % self.calls),
            ("function time", "%.3f s" % self.function_time),
            ("polling time", "%.3f s" % self.polling_time),
            ("data in", _bytes(self.bytes_in)),
            ("data out", _bytes(self.bytes_out)),
        )
        return "\n".join("%-15s %s" % row for row in rows)


@dataclasses.dataclass(frozen=True)
class Capacity:
    """What a worker has to lease, at the time of asking.

    cores, memory: in all, the latter in bytes. No cores: it leases no executors.
    free_cores, free_memory: the part that is not leased.
    waiting: leases that wait in line.
    allow_upload: whether it takes any code from clients.
    python: whether it has executors for Python functions.
    """

    cores: int
    free_cores: int
    memory: int
    free_memory: int
    waiting: int
    allow_upload: bool
    python: bool


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return "%d B" % count if unit == "B" else "%.1f %s" % (size, unit)
        size /= 1024
    return "%.1f GiB" % size
