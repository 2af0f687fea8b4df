#!/usr/bin/python3
"""Sweeps a parameter of a model with joblib, on leased executors, and checks the results against a formula.

    examples/run joblib_sweep --executors=2

The model is an epidemic. The sweep asks how many people it reaches, for each number of people that one ill person infects. A
program that uses joblib already changes one line: the `with`. Needs joblib here and at the worker (Debian: python3-joblib).
"""

import argparse
import math
import os
import sys

import invoker
import invoker.joblib
import joblib


def epidemic(infected_by_one, step=0.02):
    """The share of all people that fall ill, and the process that has computed it."""
    healthy, ill = 1 - 1e-6, 1e-6
    # In units of the time that an illness takes; until the epidemic is over.
    while ill > 1e-9:
        new = infected_by_one * healthy * ill * step
        healthy -= new
        ill += new - ill * step
    return 1 - healthy, os.getpid()


def final_size(infected_by_one):
    """The same share by the formula of Kermack and McKendrick: z = 1 - exp(-R z), solved by iteration."""
    share = 1.0
    for _ in range(1000):
        share = 1 - math.exp(-infected_by_one * share)
    return share


def main() -> int:
    parser = argparse.ArgumentParser(description="Sweeps a parameter of an epidemic with joblib on leased executors.")
    parser.add_argument("--server", required=True, metavar="HOST:PORT,...", help="invoker_servers that lease executors")
    parser.add_argument("--executors", type=int, default=2, metavar="N", help="default: %(default)s")
    parser.add_argument("--points", type=int, default=60, metavar="N", help="of the sweep; default: %(default)s")
    options = parser.parse_args()
    if min(options.executors, options.points) < 1:
        parser.error("--executors and --points must be at least 1")

    sweep = [1.2 + 2.8 * i / options.points for i in range(options.points)]
    try:
        with invoker.Executor(options.server, max_workers=options.executors) as executor, invoker.joblib.backend(executor):
            results = joblib.Parallel()(joblib.delayed(epidemic)(infected) for infected in sweep)
    except invoker.InvokerError as error:
        print("joblib_sweep.py: %s" % error, file=sys.stderr)
        return 1

    processes = {process for _, process in results}
    assert len(results) == options.points and os.getpid() not in processes
    for infected, (share, _) in zip(sweep, results):
        assert abs(share - final_size(infected)) < 0.02, (infected, share, final_size(infected))
    print("one infects   fall ill    formula")
    for infected, (share, _) in list(zip(sweep, results))[:: max(1, options.points // 10)]:
        print("%11.2f   %7.1f%%   %7.1f%%" % (infected, 100 * share, 100 * final_size(infected)))
    print("%d points, in %d processes of the worker" % (len(results), len(processes)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
