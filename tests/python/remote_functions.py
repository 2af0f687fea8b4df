"""What remote_test.py calls, served by a process of its own: remote_functions.py PROVIDER

Prints its address, and serves until its standard input ends.
"""

import sys
import threading

import invoker
import numpy


class NotAgain(Exception):
    """Can be pickled, and not be made again."""

    def __init__(self, one, two):
        super().__init__(one)


class Holds(Exception):
    """Holds what cannot be pickled."""

    def __init__(self):
        super().__init__("holds a lock")
        self.lock = threading.Lock()


kept = []


def add(a, b=0, *, scale=1):
    return (a + b) * scale


def facts(array):
    """Where the argument lies and what it is, as seen by the function."""
    base = array
    while isinstance(base, numpy.ndarray):
        base = base.base
    return {
        "memory": type(base.obj).__name__,
        "writeable": array.flags.writeable,
        "address": array.__array_interface__["data"][0],
    }


def fail(kind):
    if kind == "again":
        raise NotAgain("one", "two")
    if kind == "holds":
        raise Holds()
    raise {"key": KeyError, "stop": StopIteration, "exit": SystemExit, "ctrl-c": KeyboardInterrupt}[kind](kind)


def generate():
    yield 1


def keep(array):
    kept.append(array)


def forget():
    kept.clear()


FUNCTIONS = {
    "add": add,
    "facts": facts,
    "fail": fail,
    "generate": generate,
    "keep": keep,
    "forget": forget,
    "same": lambda *args, **kwargs: (args, kwargs),
    "identity": lambda value: value,
    "arange": numpy.arange,
    "sleep": lambda seconds: threading.Event().wait(seconds),
    "twice": lambda array: (array + 0, array * 2),
    "lock": lambda: threading.Lock(),
}


def main():
    functions = {name: invoker.pickled(function) for name, function in FUNCTIONS.items()}
    functions["plain"] = lambda request: bytes(request[:4])
    with invoker.serve(functions, provider=sys.argv[1], window=1 << 18) as server:
        print(server.address, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
