#!/usr/bin/python3
"""Multiplies two matrices block by block on leased executors, and checks the product against numpy's.

    examples/run blocked_matmul --executors=2

The workers' function is `matmul` of examples/functions/matmul.cc, which is BLAS with one thread. A product of n x n
matrices in blocks of b x b is (n / b)^3 calls; each sends two blocks and returns one. numpy is measured in processes of its
own, once with one thread and once with as many as it takes by itself.
"""

import argparse
import itertools
import os
import subprocess
import sys
import time

import invoker
import numpy

# Whichever of them this machine's BLAS listens to.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "BLIS_NUM_THREADS": "1"}


def matrices(size):
    """The same two in every process."""
    return numpy.random.default_rng(1).random((2, size, size))


def starts(size, block):
    """Where the blocks of C = A B begin: row, column, and the index that is summed over."""
    return itertools.product(range(0, size, block), repeat=3)


def requests(a, b, block):
    """One request for each product of two blocks: m, k, n as uint64, then both blocks as float64, row by row."""
    for i, j, k in starts(len(a), block):
        left, right = a[i : i + block, k : k + block], b[k : k + block, j : j + block]
        request = numpy.empty(3 + left.size + right.size)
        request[:3].view(numpy.uint64)[:] = (*left.shape, right.shape[1])
        request[3 : 3 + left.size] = left.ravel()
        request[3 + left.size :] = right.ravel()
        yield request


def multiply(matmul, a, b, block):
    """a @ b. Products of blocks come back in their order and are summed here."""
    product = numpy.zeros_like(a)
    for (i, j, _), result in zip(starts(len(a), block), matmul.map(requests(a, b, block))):
        part = product[i : i + block, j : j + block]
        part += numpy.frombuffer(result).reshape(part.shape)
    return product


def best_time_of_numpy(size):
    """Seconds, of five times."""
    a, b = matrices(size)
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - begin)
    return best


def numpy_elsewhere(size, environment):
    """best_time_of_numpy in a process of its own."""
    command = [sys.executable, os.path.abspath(__file__), "--time-numpy", "--size=%d" % size, "--server="]
    done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, check=True, text=True)
    return float(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description="Multiplies matrices block by block on leased executors.")
    parser.add_argument("--server", required=True, metavar="HOST:PORT,...", help="invoker_servers that lease executors")
    parser.add_argument("--executors", type=int, default=2, metavar="N", help="default: %(default)s")
    parser.add_argument("--size", type=int, default=2048, metavar="N", help="rows and columns; default: %(default)s")
    parser.add_argument("--block", type=int, default=256, metavar="N", help="rows of a block; default: %(default)s")
    parser.add_argument("--time-numpy", action="store_true", help="only measure numpy here, and print the seconds")
    options = parser.parse_args()
    if min(options.executors, options.size, options.block) < 1:
        parser.error("--executors, --size and --block must be at least 1")
    if options.time_numpy:
        print(best_time_of_numpy(options.size))
        return 0

    a, b = matrices(options.size)
    try:
        begin = time.perf_counter()
        with invoker.connect(options.server) as client, client.lease(options.executors, python=False) as lease:
            matmul = lease.function("matmul")
            ready = time.perf_counter()
            product = multiply(matmul, a, b, options.block)
            remote = time.perf_counter() - ready
            bill = lease.close()
    except invoker.InvokerError as error:
        print("blocked_matmul.py: %s" % error, file=sys.stderr)
        return 1
    # A NaN is not close to anything.
    if not numpy.allclose(product, a @ b, rtol=1e-10):
        print("blocked_matmul.py: the product differs from numpy's", file=sys.stderr)
        return 1
    one = numpy_elsewhere(options.size, ONE_THREAD)
    own = numpy_elsewhere(options.size, {})

    calls = sum(1 for _ in starts(options.size, options.block))
    print("%d x %d float64, %d calls with blocks of %d; the products agree" % (*a.shape, calls, options.block))
    print("lease                                       %9.1f ms" % (1e3 * (ready - begin)))
    print("%3d leased executors, transfers included    %9.1f ms" % (options.executors, 1e3 * remote))
    print("numpy here, one thread                      %9.1f ms, speed-up %.2f" % (1e3 * one, one / remote))
    print("numpy here, as many threads as it takes     %9.1f ms, speed-up %.2f" % (1e3 * own, own / remote))
    print("\nThe bill:\n%s" % bill)
    return 0


if __name__ == "__main__":
    sys.exit(main())
