#!/usr/bin/python3
"""Leases executors, ships a Python function that uses numpy, maps it over arrays, and prints the bill.

    examples/run lease_numpy --executors=2
"""

import argparse
import sys
import time

import invoker
import numpy


def principal_components(samples):
    """The three directions in which the samples vary most, and how much they vary there."""
    centred = samples - samples.mean(axis=0)
    _, deviations, directions = numpy.linalg.svd(centred, full_matrices=False)
    # A direction and its opposite mean the same: the sign is made that of the largest component.
    largest = numpy.abs(directions).argmax(axis=1)
    signs = numpy.sign(directions[numpy.arange(len(largest)), largest])
    return (directions * signs[:, None])[:3], deviations[:3]


def main() -> int:
    parser = argparse.ArgumentParser(description="Maps a Python function over arrays, on leased executors.")
    parser.add_argument("--server", required=True, metavar="HOST:PORT,...", help="invoker_servers that lease executors")
    parser.add_argument("--executors", type=int, default=2, metavar="N", help="default: %(default)s")
    parser.add_argument("--arrays", type=int, default=100, metavar="N", help="default: %(default)s")
    parser.add_argument("--rows", type=int, default=400, metavar="N", help="samples in each; default: %(default)s")
    options = parser.parse_args()
    if min(options.executors, options.arrays) < 1 or options.rows < 3:
        parser.error("--executors and --arrays must be at least 1, --rows at least 3")

    chance = numpy.random.default_rng(1)
    # Each column varies by another scale, so that the directions are well defined.
    arrays = [chance.normal(scale=numpy.arange(1, 201), size=(options.rows, 200)) for _ in range(options.arrays)]
    try:
        begin = time.perf_counter()
        with invoker.connect(options.server) as client, client.lease(options.executors, python=True) as lease:
            remote_function = lease.register(principal_components)
            remote_function(arrays[0])
            ready = time.perf_counter()
            remote = list(remote_function.map(arrays))
            done = time.perf_counter()
            bill = lease.close()
    except invoker.InvokerError as error:
        print("lease_numpy.py: %s" % error, file=sys.stderr)
        return 1
    begin_here = time.perf_counter()
    local = [principal_components(array) for array in arrays]
    here = time.perf_counter() - begin_here

    for (directions, deviations), (expected_directions, expected_deviations) in zip(remote, local):
        if not numpy.allclose(deviations, expected_deviations) or not numpy.allclose(
            directions, expected_directions, atol=1e-6
        ):
            print("lease_numpy.py: a remote result differs from that computed here", file=sys.stderr)
            return 1
    megabytes = sum(array.nbytes for array in arrays) / 1e6
    print("%d arrays of %d x %d float64 (%.0f MB); the results agree" % (len(arrays), *arrays[0].shape, megabytes))
    print("lease, function, first call  %9.1f ms" % (1e3 * (ready - begin)))
    print("%3d leased executors         %9.1f ms" % (options.executors, 1e3 * (done - ready)))
    print("here, numpy as it comes      %9.1f ms" % (1e3 * here))
    print("speed-up                     %9.2f, with all that came before %.2f" % (here / (done - ready), here / (done - begin)))
    print("\nThe bill:\n%s" % bill)
    return 0


if __name__ == "__main__":
    sys.exit(main())
