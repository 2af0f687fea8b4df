"""Python functions on their way to an executor: by value, with cloudpickle."""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import re
import sys
import sysconfig
from types import ModuleType
from typing import Any, Callable, Container, Iterator

_MOST_NAME = 128


def dumps(function: Callable[..., Any]) -> bytes:
    """The function, for loads() in an executor.

    What it refers to goes along by value if it is defined in the program (__main__) or in the function's own package and that is
    not installed; everything else is imported there by name, and has to be installed there.
    """
    try:
        import cloudpickle
    except ImportError:
        raise ImportError(
            "shipping a Python function needs cloudpickle (Debian: python3-cloudpickle)"
        ) from None
    with _by_value(cloudpickle, function):
        return cloudpickle.dumps(function, protocol=5)


@functools.lru_cache(maxsize=64)
def loads(code: bytes) -> Callable[..., Any]:
    """The function of dumps(). The same bytes are the same function, with the globals that earlier calls have left."""
    return pickle.loads(code)


def name_for(function: Callable[..., Any], taken: Container[str]) -> str:
    """A name for the function that is not taken on the worker: its own, with a number if that is taken."""
    function = _innermost(function)
    name = getattr(function, "__qualname__", type(function).__name__).rpartition("<locals>.")[2]
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_.") or "function"
    name = name[: _MOST_NAME - 8]
    if name not in taken:
        return name
    number = 2
    while "%s-%d" % (name, number) in taken:
        number += 1
    return "%s-%d" % (name, number)


def _innermost(function: Any) -> Callable[..., Any]:
    """What a partial, or a function with options of the package's, was made of."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif type(function).__module__ in ("invoker.server", "invoker.typed"):
            function = function.function
        else:
            return function


@contextlib.contextmanager
def _by_value(cloudpickle: Any, function: Callable[..., Any]) -> Iterator[None]:
    inner = _innermost(function)
    top = (getattr(inner, "__module__", None) or type(inner).__module__).partition(".")[0]
    module = sys.modules.get(top)
    if module is None or top == "__main__" or _is_installed(module):
        yield
        return
    if module.__name__ in cloudpickle.list_registry_pickle_by_value():
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _is_installed(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if file is None:
        # Built in; a namespace package has its parts somewhere.
        return not hasattr(module, "__path__")
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    places.update(path for path in sys.path if path.endswith(("dist-packages", "site-packages")))
    real = os.path.realpath(file)
    return any(place and real.startswith(os.path.realpath(place) + os.sep) for place in places)
