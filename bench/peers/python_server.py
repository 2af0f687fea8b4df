"""The other side of python_objects: a server whose functions are Python's.

    python_server.py PROVIDER

Prints its address once it serves, and ends when standard input does.
"""

import math
import sys

import invoker


def noop(request):
    """Bytes, as they came."""
    return request


def add(number, other):
    """Two small objects, and one back."""
    return number + other


def main():
    """Serves until standard input ends."""
    functions = {"noop": noop, "add": invoker.pickled(add)}
    with invoker.serve(functions, provider=sys.argv[1], hot_timeout=math.inf, peer_timeout=86400) as server:
        print(server.address, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
