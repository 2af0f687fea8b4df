#!/usr/bin/python3
"""Multiplies numpy matrices on a remote worker, and checks the result against numpy's own.

Start a server as for thumbnail.py, then:

    PYTHONPATH=bazel-bin/src/python /usr/bin/python3 examples/python/matmul.py --server=127.0.0.1:7000
"""

import argparse
import statistics
import sys
import time

import invoker
import numpy


def encode(a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    """The request for a @ b: m, k, n as uint64, then both matrices as float64, row by row."""
    (m, k), (_, n) = a.shape, b.shape
    request = numpy.empty(3 + m * k + k * n)
    request[:3].view(numpy.uint64)[:] = (m, k, n)
    request[3 : 3 + m * k] = a.ravel()
    request[3 + m * k :] = b.ravel()
    return request


def main() -> int:
    parser = argparse.ArgumentParser(description="Multiplies square matrices on a remote worker.")
    parser.add_argument("--server", required=True, metavar="HOST:PORT", help="an invoker_server")
    parser.add_argument("--size", type=int, default=200, metavar="N", help="rows; default: %(default)s")
    parser.add_argument("--count", type=int, default=50, metavar="N", help="calls; default: %(default)s")
    options = parser.parse_args()
    if options.size < 1 or options.count < 1:
        parser.error("--size and --count must be at least 1")

    chance = numpy.random.default_rng(1)
    a, b = chance.random((2, options.size, options.size))
    product = numpy.empty_like(a)
    remote, local = [], []
    try:
        with invoker.connect(options.server) as client:
            matmul = client.function("matmul")
            for _ in range(options.count):
                begin = time.perf_counter()
                matmul(encode(a, b), out=product, timeout=60)
                remote.append(time.perf_counter() - begin)
                begin = time.perf_counter()
                expected = a @ b
                local.append(time.perf_counter() - begin)
            provider = client.provider
    except invoker.InvokerError as error:
        print("matmul.py: %s" % error, file=sys.stderr)
        return 1
    if not numpy.allclose(product, expected, rtol=1e-12):
        print("matmul.py: the remote product differs from numpy's", file=sys.stderr)
        return 1
    print("%d x %d float64 over %s, %d calls; the products agree" % (*a.shape, provider, len(remote)))
    print("                                             median       best")
    print("remote, encoding and both transfers included  %8.3f   %8.3f ms" % _figures(remote))
    print("numpy in this process                         %8.3f   %8.3f ms" % _figures(local))
    return 0


def _figures(seconds: "list[float]") -> "tuple[float, float]":
    return 1e3 * statistics.median(seconds), 1e3 * min(seconds)


if __name__ == "__main__":
    sys.exit(main())
