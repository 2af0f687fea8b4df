#!/usr/bin/env python3
"""Breaks hosts of a cluster with calls under way, and prints what every client saw.

Eight hosts in a box (examples/cluster/box), with links of 20 Mbit/s, queues of 64 KiB, a delay of 1 ms where the kernel
has sch_netem, and one packet of a thousand lost. Three hosts have a member of etcd each, and five have a worker. Two of
the others have a client each. All of them show one another a certificate, and speak TLS. Some workers join and leave.
Two more workers are jobs of Slurm's, for the last failures only.

Each client does four kinds of work at the same time, without end:

  calls     plain calls of one function, eight at a time
  map       one map over inputs without end; after one that failed, another one
  uploads   a lease on all workers, to which the client uploads a Python function; after a lost executor, another lease
  uploaded  calls of that function
  leases    new leases of one executor, with a call each

Nothing is tried again, but a lease that could not be had. Each failure is made good before the next one, which begins
when all work goes on. A failure lasts for twice the clients' peer timeout, so that no session outlives it.

For each failure, client and kind: the calls or uploads that ended before the next failure, how they ended, how many
sessions, maps or leases were begun anew ("renewed"), how many tries to take a lease failed ("refused"), and how long
the longest call or upload and the longest lease took. An upload that fails has no fate, and is "unknown". Items of a
map that were under way when an earlier one failed are "unseen": the map has no results for them. The report fails where
a failure that has to end calls or leases ends none, and where maps have no item on a worker that joined. At the end
each call's fate is compared with how often its function ran.

Exit status: 0 all as promised, 1 not, 2 wrong usage, 3 nothing wrong, but not everything could be tested here.
"""

import argparse
import contextlib
import math
import os
import pathlib
import shutil
import sys
import tempfile
import time

# It is started in its runfiles.
ROOT = pathlib.Path.cwd()
sys.path[:0] = [str(ROOT / folder) for folder in ("tests/failure", "examples/cluster/box", "src/python")]

import hosts as box
from cluster_report_client import KINDS
from cluster_report_failures import failures
from cluster_report_table import Helpers, Marks, Span, Verdict, complaints, print_rows
from cluster_report_world import LINK, World

_LEAST_LASTS = 3.0  # seconds that a failure lasts
# Seconds that a call may take beyond the peer timeout: a heartbeat of the lease, and a turn of each thread on a busy
# processor.
_MARGIN = 1.0
_NOT_ALL_TESTED = 3
_PROGRAMS = ("etcd", "etcdctl", "openssl", "unshare", "nsenter", "ip", "tc")


def _cause(world, failure, lasts):
    """Lets it happen, and makes it good. All work goes on before it and after it."""
    failure.prepares()
    world.await_work()
    begin = time.monotonic()
    failure.breaks()
    # The failure's own duration.
    time.sleep(lasts if failure.lasts is None else failure.lasts)
    end = time.monotonic()
    failure.mends()
    world.await_work()
    return Span(failure, begin, end, time.monotonic())


def _cause_all(world, arguments):
    """Causes the failures that are wanted. Returns their spans, and the failures that cannot be caused here."""
    wanted = [each for each in failures(world) if not arguments.failure or each.name in arguments.failure]
    missing = [each for each in wanted if each.missing]
    lasts = max(_LEAST_LASTS, 2 * arguments.peer_timeout)
    return [_cause(world, each, lasts) for each in wanted if not each.missing], missing


def _report(arguments):
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as running:
        world = World(folder, running, ROOT, arguments.peer_timeout)
        _print_links(world)
        spans, missing = _cause_all(world, arguments)
        seen = world.clients.end()
        for span in spans[-1:]:
            span.next = math.inf
        with Marks(world.marks) as marks:
            verdicts = [
                Verdict(host, kind, kinds[kind], world.clients.first_numbers[host], marks)
                for host, kinds in seen.items()
                for kind in KINDS
            ]
            helpers = [Helpers(span, seen, marks) for span in spans]
    rows = [row for span in spans for row in span.rows(seen, spans)]
    print_rows(rows)
    print("\n".join(map(str, verdicts)))
    print("\n".join(line for each in helpers for line in each.lines()))
    wrong = complaints(rows, arguments) + [line for each in helpers for line in each.complaints()]
    wrong += ["wrong: %s" % verdict for verdict in verdicts if verdict.bad]
    return _conclude(wrong, missing, time.monotonic() - began)


def _conclude(wrong, missing, seconds):
    """Prints the last lines. Returns the exit status."""
    for line in wrong:
        print(line)
    for failure in missing:
        print("not tested: %s: %s" % (failure.name, failure.missing))
    if wrong:
        print("not as promised: see above; it took %.0f s" % seconds)
        return 1
    if missing:
        print("what was tested is as promised, but not everything was tested: see above; it took %.0f s" % seconds)
        return _NOT_ALL_TESTED
    print("all as promised, in %.0f s" % seconds)
    return 0


def _why_not_here():
    """Why nothing can be tested here; None if it can."""
    if os.geteuid() != 0:
        return "this needs root: it makes network namespaces"
    programs = [program for program in _PROGRAMS if shutil.which(program) is None]
    return "no " + ", ".join(programs) if programs else None


def _print_links(world):
    delay = LINK["delay"] if world.delayed else "none, since this kernel has no sch_netem"
    print("links: %s, queue %s, loss %g%%, delay %s" % (LINK["rate"], LINK["queue"], 100 * LINK["loss"], delay))


def main():
    """Runs the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--peer-timeout", type=float, default=1.0, help="the clients', in seconds (default: %(default)s)"
    )
    parser.add_argument(
        "--within",
        type=float,
        help="each call and each upload must have ended by then (default: the peer timeout and %g s)" % _MARGIN,
    )
    parser.add_argument(
        "--lease-within", type=float, default=2.0, help="and a new lease be there (default: %(default)s)"
    )
    parser.add_argument(
        "--failure", action="append", metavar="NAME", help="only this one, or these; as the table names them"
    )
    arguments = parser.parse_args()
    if arguments.within is None:
        arguments.within = arguments.peer_timeout + _MARGIN
    why_not = _why_not_here()
    if why_not is not None:
        print("nothing was tested: %s" % why_not)
        return _NOT_ALL_TESTED
    box.enter()
    return _report(arguments)


sys.exit(main())
