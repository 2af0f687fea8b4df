#!/usr/bin/python3
"""Functions that crash, exit, leak and never return, each in a lease of its own, while another lease keeps calling.

    examples/run crash_isolation

Prints how each of the bad leases ended, and how many of the other lease's calls failed meanwhile: none should.
"""

import argparse
import sys
import threading
import time

import invoker

# Each with whether only a limit of its time ends it.
FAULTS = {"fault.dereference_null": False, "fault.exit": False, "fault.leak": False, "fault.never_return": True}


class Neighbour(threading.Thread):
    """Calls echo, one call after the other, until it is told to stop; counts, and checks what comes back."""

    def __init__(self, lease):
        super().__init__()
        self._lease = lease
        self._stopped = threading.Event()
        self.called = threading.Event()  # once the first call has returned
        self.calls = 0
        self.failed = 0
        self.slowest = 0.0
        self.error = None

    def run(self):
        while not self._stopped.is_set():
            data = b"%d" % self.calls
            begin = time.perf_counter()
            try:
                right = bytes(self._lease.call("echo", data, timeout=30)) == data
            except invoker.InvokerError as error:
                right, self.error = False, error
            self.slowest = max(self.slowest, time.perf_counter() - begin)
            self.calls += 1
            self.failed += not right
            self.called.set()
            if self.error is not None:
                return

    def stop(self):
        self._stopped.set()
        self.join()


def provoke(client, library, fault, call_limit):
    """Leases an executor, has it do `fault`, and returns what the caller was told."""
    with client.lease(memory="64M", call_limit=call_limit, python=False) as lease:
        lease.upload(library)
        try:
            lease.call(fault, timeout=60)
        except invoker.InvokerError as error:
            return error
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description="Shows that a lease's faults end that lease and no other.")
    parser.add_argument("--server", required=True, metavar="HOST:PORT", help="an invoker_server that leases 2 executors or more")
    parser.add_argument("--library", required=True, metavar="FILE", help="libfaults.so")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="of all faults; default: %(default)s")
    parser.add_argument("--call-limit", type=float, default=0.5, metavar="SECONDS", help="of the function that never returns; default: %(default)s")
    options = parser.parse_args()
    if options.rounds < 1 or options.call_limit <= 0:
        parser.error("--rounds must be at least 1, and --call-limit positive")

    survived = []
    try:
        with invoker.connect(options.server) as client, client.lease(python=False) as lease:
            neighbour = Neighbour(lease)
            neighbour.start()
            try:
                neighbour.called.wait()
                for _ in range(options.rounds):
                    for fault, limited in FAULTS.items():
                        before = neighbour.calls
                        error = provoke(client, options.library, fault, options.call_limit if limited else None)
                        if error is None:
                            survived.append(fault)
                        print("%-24s %s" % (fault, error))
                        print("%-24s the other lease made %d calls meanwhile" % ("", neighbour.calls - before))
            finally:
                neighbour.stop()
    except (invoker.InvokerError, OSError) as error:
        print("crash_isolation.py: %s" % error, file=sys.stderr)
        return 1
    print("%d leases ended by their functions" % (options.rounds * len(FAULTS) - len(survived)))
    print(
        "the other lease: %d calls, %d failed, the slowest took %.1f ms"
        % (neighbour.calls, neighbour.failed, 1e3 * neighbour.slowest)
    )
    if neighbour.failed:
        print("crash_isolation.py: %s" % (neighbour.error or "a wrong answer"), file=sys.stderr)
    return 1 if neighbour.failed or survived else 0


if __name__ == "__main__":
    sys.exit(main())
