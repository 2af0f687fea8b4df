"""An executor's process that can run Python functions, as invoker_server starts it: python3 .../invoker/executor.py, or
python3 -m invoker.executor

Executors are forked from a template that has imported the modules that most functions need, since imports take longest.
"""

import os
import sys

if __name__ == "__main__":
    # Not from beside this file, or from the working directory: neither is where modules are. The server asks for neither
    # (PYTHONSAFEPATH), which Python knows from 3.11 on. Programs that functions start are not meant.
    os.environ.pop("PYTHONSAFEPATH", None)
    _place = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, _place)
    else:
        sys.path[0] = _place

import pickle


def load(path):
    """The function in the file at path, which invoker._pickle.shipping.dumps has made. For the native half.

    Returns (function, signature, concurrency, whether it is a coroutine function). Without a signature it is one of frames.
    """
    from invoker.server import Pickled, native_form
    from invoker.typed import Typed

    with open(path, "rb") as file:
        function = pickle.load(file)
    if not callable(function):
        raise TypeError("the file holds a %s, which is not callable" % type(function).__name__)
    if not isinstance(function, (Typed, Pickled)):
        function = Pickled(function)
    form = native_form(function)
    return form.call, form.signature, form.concurrency, form.coroutine


def _prepare():
    # Output goes to the server's standard error, and a line should be there before the process is ended.
    sys.stdout.reconfigure(line_buffering=True)
    # Before numpy is imported: a lease's executor has one core, and a process that is forked from must have one thread.
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    for name in ("cloudpickle", "numpy"):
        try:
            __import__(name)
        except ImportError:
            pass


def main():
    """Runs until the server goes away. Returns the exit status."""
    # All that calls need, so that it is there before the fork.
    from invoker._native import _invoker, failures  # noqa: F401
    from invoker import server, typed  # noqa: F401
    from invoker._pickle import framed, references  # noqa: F401

    _prepare()
    return _invoker.run_executor(["invoker.executor", *sys.argv[1:]])


if __name__ == "__main__":
    # What this process runs refers to the module by its name.
    from invoker import executor

    sys.exit(executor.main())
