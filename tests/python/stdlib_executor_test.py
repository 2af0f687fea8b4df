"""The standard library's own tests of executors, where they apply to invoker.Executor."""

import functools
import importlib
import pkgutil
import unittest

import invoker
import pytest

theirs = pytest.importorskip("test.test_concurrent_futures", reason="needs libpython3-testsuite")


def find(name):
    """A class of theirs; a module until Python 3.11, and a package since."""
    if hasattr(theirs, name):
        return getattr(theirs, name)
    for module in pkgutil.iter_modules(theirs.__path__):
        found = getattr(importlib.import_module("%s.%s" % (theirs.__name__, module.name)), name, None)
        if found is not None:
            return found
    raise LookupError(name)


class OverLeases(unittest.TestCase):
    """Theirs give each test an executor of this type."""

    worker_count = 2

    @pytest.fixture(autouse=True)
    def _make(self, worker):
        self.executor_type = functools.partial(invoker.Executor, worker.address)
        self.executor = self.executor_type(max_workers=self.worker_count)
        yield
        self.executor.shutdown(wait=True)


class TestExecutor(OverLeases, find("ExecutorTest")):
    """submit() and map()."""


class TestWait(OverLeases, find("WaitTests")):
    """wait()."""


class TestAsCompleted(OverLeases, find("AsCompletedTests")):
    """as_completed()."""


class TestShutdown(OverLeases):
    """shutdown(); theirs also look at threads and processes that we do not have."""

    test_run_after_shutdown = find("ExecutorShutdownTest").test_run_after_shutdown
    test_hang_issue12364 = find("ExecutorShutdownTest").test_hang_issue12364
