#!/usr/bin/python3
"""Calls typed functions of a worker with numpy arrays, and checks the results.

    examples/run typed_calls

The functions are examples/functions/arrays.cc, and examples/cpp/typed_calls.cc calls the same from C++. With a server that you
have started as for thumbnail.py:

    PYTHONPATH=bazel-bin/src/python /usr/bin/python3 examples/python/typed_calls.py --server=127.0.0.1:7000
"""

import argparse
import sys

import invoker
import numpy


def main() -> int:
    parser = argparse.ArgumentParser(description="Calls typed functions with numpy arrays.")
    parser.add_argument("--server", required=True, metavar="HOST:PORT", help="an invoker_server with libexample_functions.so")
    options = parser.parse_args()

    a = numpy.arange(1000, dtype=float)
    ones = numpy.ones(1000)
    matrix = a.reshape(1, -1)
    try:
        with invoker.connect(options.server) as client:
            # The signature is the worker's. One that is given here, too, is compared with it.
            dot = client.typed("dot", "(f64[:], f64[:]) -> f64")
            scale = client.typed("scale")
            print("dot    %s\nscale  %s" % (dot.signature, scale.signature))

            product = dot(a, ones)
            future = dot.submit(a, a)
            squares = future.result()
            many = list(dot.map([a] * 50, [i * ones for i in range(50)]))
            scaled = scale(matrix, 10.0)
            try:
                dot(a, "a string")
                refused = ""
            except TypeError as error:
                refused = str(error)  # nothing has been sent
    except invoker.InvokerError as error:
        print("typed_calls.py: %s" % error, file=sys.stderr)
        return 1

    assert product == a.sum()
    assert numpy.isclose(squares, (a * a).sum(), rtol=1e-12)
    assert many == [i * a.sum() for i in range(50)]
    assert scaled.shape == matrix.shape and (scaled == 10 * matrix).all()
    assert refused
    print("dot(a, ones) = %.0f, dot(a, a) = %.0f, and 50 calls by map" % (product, squares))
    print("scale(matrix, 10) has the shape %s and ends with %.0f" % (scaled.shape, scaled[0, -1]))
    print('dot(a, "a string") was not sent: %s' % refused)
    return 0


if __name__ == "__main__":
    sys.exit(main())
