#!/usr/bin/python3
"""Monte Carlo over an array of 100 MB that all calls share: it is sent once to each executor, and not with each call.

    examples/run shared_array --executors=2

How certain is the mean of the samples? Each call draws some samples by chance and returns their mean. By the central limit
theorem, the means vary by the samples' deviation over the root of the number drawn.
"""

import argparse
import itertools
import math
import sys
import time

import invoker
import numpy


def mean_of_some(samples, draws, seed):
    """The mean of samples drawn by chance. `samples` is a view of the executor's memory."""
    picked = numpy.random.default_rng(seed).integers(0, len(samples), draws)
    return float(samples[picked].mean())


def main() -> int:
    parser = argparse.ArgumentParser(description="Maps a Monte Carlo function over a shared array, on leased executors.")
    parser.add_argument("--server", required=True, metavar="HOST:PORT", help="an invoker_server that leases executors")
    parser.add_argument("--executors", type=int, default=2, metavar="N", help="default: %(default)s")
    parser.add_argument("--megabytes", type=int, default=100, metavar="N", help="the array's size; default: %(default)s")
    parser.add_argument("--calls", type=int, default=200, metavar="N", help="default: %(default)s")
    parser.add_argument("--draws", type=int, default=10_000, metavar="N", help="in each call; default: %(default)s")
    options = parser.parse_args()
    if min(options.executors, options.megabytes, options.draws) < 1 or options.calls < 20:
        parser.error("--executors, --megabytes and --draws must be at least 1, --calls at least 20")

    samples = numpy.random.default_rng(0).normal(7.0, 2.0, options.megabytes * 125_000)
    # An executor keeps three quarters of its memory for data.
    memory = 2 * samples.nbytes + (256 << 20)
    try:
        with invoker.connect(options.server) as client, client.lease(options.executors, python=True, memory=memory) as lease:
            remote_function = lease.register(mean_of_some)
            begin = time.perf_counter()
            shared = lease.put(samples)
            stored = time.perf_counter()
            means = list(
                remote_function.map(itertools.repeat(shared), itertools.repeat(options.draws), range(options.calls))
            )
            done = time.perf_counter()
            bill = lease.close()
    except invoker.InvokerError as error:
        print("shared_array.py: %s" % error, file=sys.stderr)
        return 1

    # The same draws here give the same means.
    assert len(means) == options.calls
    for seed in range(0, options.calls, 10):
        assert math.isclose(means[seed], mean_of_some(samples, options.draws, seed), rel_tol=1e-12), seed
    expected = samples.std() / math.sqrt(options.draws)
    deviation = numpy.std(means)
    # The error of a deviation is about 1 / sqrt(2 n) of it.
    assert abs(deviation / expected - 1) < 6 / math.sqrt(2 * options.calls), (deviation, expected)
    # The bill counts the array once for each executor, and little for each call.
    assert bill.bytes_in < options.executors * (samples.nbytes + 1_000_000) + 10_000 * options.calls, bill.bytes_in
    print("the mean is %.4f, and varies by %.4f; by the formula: %.4f" % (numpy.mean(means), deviation, expected))
    print("%.0f MB stored in %d executors  %9.1f ms" % (samples.nbytes / 1e6, options.executors, 1e3 * (stored - begin)))
    print("%d calls                      %9.1f ms" % (options.calls, 1e3 * (done - stored)))
    print("\nThe bill:\n%s" % bill)
    return 0


if __name__ == "__main__":
    sys.exit(main())
