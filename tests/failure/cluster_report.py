#!/usr/bin/env python3
"""Breaks hosts of a cluster with calls under way, and prints what every client saw.

Eight hosts in a box (examples/cluster/box), with links of 20 Mbit/s, queues of 64 KiB, a delay of 1 ms where the kernel has sch_netem,
and one packet of a thousand lost. Three hosts have a member of etcd each, and five have a worker. Two of the others have a client each.
All of them show one another a certificate, and speak TLS. Two more workers are jobs of Slurm's, for the last failure only.

Each client does four kinds of work at the same time, without end:

  calls    plain calls of one function, eight at a time
  map      one map over inputs without end; after one that failed, another one
  uploads  calls of a Python function that it has brought to a lease on all workers; after a lost executor, by another lease
  leases   new leases of one executor, with a call each

Nothing is tried again, but a lease that could not be had. Each failure is made good before the next one. It lasts for twice the
clients' peer timeout, so that no session outlives it.

For each failure, client and kind: the calls that ended before the next failure, how they ended, how many sessions, maps or leases were
begun anew ("renewed"), and how long the longest call, lease and upload took. Items of a map that were under way when an earlier one
failed are "unseen": the map has no results for them. The report fails where a failure that has to end calls or
leases ends none. At the end each call's fate is compared with how often its function ran.

Exit status: 0 all as promised, 1 not, 2 wrong usage.
"""

import argparse
import contextlib
import math
import pathlib
import sys
import tempfile
import time

# It is started in its runfiles.
ROOT = pathlib.Path.cwd()
sys.path[:0] = [str(ROOT / folder) for folder in ("tests/failure", "examples/cluster/box", "src/python")]

import hosts as box
from cluster_report_failures import failures
from cluster_report_table import Marks, Span, Verdict, calls_of_pool, complaints, print_rows
from cluster_report_world import LINK, World

_LEAST_LASTS = 3.0  # seconds that a failure lasts
_SETTLES = 1.5  # seconds until the next one: the clients connect again meanwhile
# Seconds that a call may take beyond the peer timeout: a heartbeat of the lease, and a turn of each thread on a busy processor.
_MARGIN = 1.0


def _cause(failure, lasts):
    """Lets it happen, and makes it good."""
    failure.prepares()
    begin = time.monotonic()
    failure.breaks()
    time.sleep(failure.lasts or lasts)
    end = time.monotonic()
    failure.mends()
    time.sleep(_SETTLES)
    return Span(failure, begin, end, time.monotonic())


def _report(arguments):
    box.enter()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as running:
        world = World(folder, running, ROOT, arguments.peer_timeout)
        _print_links(world)
        time.sleep(1)
        spans = []
        for failure in failures(world):
            if arguments.failure and failure.name not in arguments.failure:
                continue
            if failure.missing:
                print("%s: skipped: %s" % (failure.name, failure.missing))
                continue
            spans.append(_cause(failure, max(_LEAST_LASTS, 2 * arguments.peer_timeout)))
        seen = world.clients.end()
        for span in spans[-1:]:
            span.next = math.inf
        with Marks(world.workers.marks.path, world.pool.marks.path) as marks:
            verdicts = [
                Verdict(host, kind, work["calls"], world.clients.first_numbers[host], marks)
                for host, kinds in seen.items()
                for kind, work in kinds.items()
            ]
            of_pool = {span.failure.name: calls_of_pool(span, seen, marks) for span in spans if span.failure.of_pool}
    rows = [row for span in spans for row in span.rows(seen, spans)]
    print_rows(rows)
    print("\n".join(map(str, verdicts)))
    for name, count in of_pool.items():
        print("%s: %d calls were answered by Slurm's workers" % (name, count))
    wrong = complaints(rows, arguments)
    wrong += ["%s: Slurm's workers had no calls, so nothing was tested" % name for name, count in of_pool.items() if not count]
    print("\n".join(wrong) or "all as promised, in %.0f s" % (time.monotonic() - began))
    return 1 if wrong or any(verdict.bad for verdict in verdicts) else 0


def _print_links(world):
    delay = LINK["delay"] if world.delayed else "none, since this kernel has no sch_netem"
    print("links: %s, queue %s, loss %g%%, delay %s" % (LINK["rate"], LINK["queue"], 100 * LINK["loss"], delay))


def main():
    """Runs the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-timeout", type=float, default=1.0, help="the clients', in seconds (default: %(default)s)")
    parser.add_argument(
        "--within",
        type=float,
        help="each call and each upload must have ended by then (default: the peer timeout and %g s)" % _MARGIN,
    )
    parser.add_argument("--lease-within", type=float, default=2.0, help="and a new lease be there (default: %(default)s)")
    parser.add_argument("--failure", action="append", metavar="NAME", help="only this one, or these; as the table names them")
    arguments = parser.parse_args()
    if arguments.within is None:
        arguments.within = arguments.peer_timeout + _MARGIN
    return _report(arguments)


sys.exit(main())
