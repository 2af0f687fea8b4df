#!/usr/bin/python3
"""Prices a European call option by Monte Carlo on many executors, with a C++ function that it brings along.

    examples/run option_price --executors=2

The library (examples/functions/option_price.cc) is uploaded, and the paths are split over the executors. The result is
checked twice: against the same paths computed here, to the last bit, and against the Black-Scholes formula.
"""

import argparse
import ctypes
import math
import struct
import sys
import time

import invoker

# Spot, strike, rate, volatility, years.
OPTION = (100.0, 105.0, 0.03, 0.2, 1.0)


def requests(paths, calls):
    """One request for each call, which together cover all paths."""
    first = 0
    for i in range(calls):
        count = paths * (i + 1) // calls - first
        yield struct.pack("<5d2Q", *OPTION, first, count)
        first += count


def price(sums, paths):
    """The option's value and the standard error of that, from what the calls returned, in their order."""
    total = squares = 0.0
    for result in sums:
        payoff, square = struct.unpack("<2d", result)
        total += payoff
        squares += square
    mean = total / paths
    return mean, math.sqrt(max(squares / paths - mean * mean, 0.0) / paths)


def black_scholes():
    """What the value is if paths and time were without end."""
    spot, strike, rate, volatility, years = OPTION
    deviation = volatility * math.sqrt(years)
    d1 = (math.log(spot / strike) + rate * years) / deviation + deviation / 2
    below = lambda x: math.erfc(-x / math.sqrt(2)) / 2  # noqa: E731
    return spot * below(d1) - strike * math.exp(-rate * years) * below(d1 - deviation)


def sums_here(library, all_requests):
    """What the worker computes, by the same code, one request after the other."""
    function = ctypes.CDLL(library).option_price_sums
    function.restype = None
    sums = (ctypes.c_double * 2)()
    for request in all_requests:
        function(request, sums)
        yield bytes(sums)


def main() -> int:
    parser = argparse.ArgumentParser(description="Prices an option by Monte Carlo on leased executors.")
    parser.add_argument("--server", required=True, metavar="HOST:PORT,...", help="invoker_servers that lease executors")
    parser.add_argument("--library", required=True, metavar="FILE", help="liboption_price.so")
    parser.add_argument("--executors", type=int, default=2, metavar="N", help="default: %(default)s")
    parser.add_argument("--paths", type=int, default=40_000_000, metavar="N", help="default: %(default)s")
    parser.add_argument("--calls", type=int, default=200, metavar="N", help="over which they are split; default: %(default)s")
    options = parser.parse_args()
    if min(options.executors, options.paths, options.calls) < 1:
        parser.error("--executors, --paths and --calls must be at least 1")

    all_requests = list(requests(options.paths, options.calls))
    try:
        begin = time.perf_counter()
        with invoker.connect(options.server) as client, client.lease(options.executors, python=False) as lease:
            lease.upload(options.library)
            option_price = lease.function("option_price")
            ready = time.perf_counter()
            remote = [bytes(sums) for sums in option_price.map(all_requests)]
            done = time.perf_counter()
            bill = lease.close()
    except (invoker.InvokerError, OSError) as error:
        print("option_price.py: %s" % error, file=sys.stderr)
        return 1
    begin_here = time.perf_counter()
    local = list(sums_here(options.library, all_requests))
    here = time.perf_counter() - begin_here

    if remote != local:
        print("option_price.py: the workers' sums differ from those computed here", file=sys.stderr)
        return 1
    value, error = price(remote, options.paths)
    exact = black_scholes()
    if abs(value - exact) > 6 * error:
        print("option_price.py: %.6f is too far from %.6f, by Black and Scholes" % (value, exact), file=sys.stderr)
        return 1
    print("%d paths in %d calls: %.6f, standard error %.6f; Black-Scholes: %.6f" % (options.paths, options.calls, value, error, exact))
    print("the same sums as here, to the last bit")
    print("lease and upload       %9.1f ms" % (1e3 * (ready - begin)))
    print("%3d leased executors   %9.1f ms" % (options.executors, 1e3 * (done - ready)))
    print("here, one thread       %9.1f ms" % (1e3 * here))
    print("speed-up               %9.2f, with lease and upload %.2f" % (here / (done - ready), here / (done - begin)))
    print("\nThe bill:\n%s" % bill)
    return 0


if __name__ == "__main__":
    sys.exit(main())
