"""The standard library's own tests of executors, where they apply to invoker.Executor."""

import functools
import gc
import importlib
import pkgutil
import unittest

import invoker
import pytest

# Debian: libpython3.11-testsuite and so on, which tools/setup installs for tests.
import test.test_concurrent_futures as theirs
from conftest import comes_true, run_script


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
    """shutdown(). These three tests of theirs use only an executor and its futures.

    Their scripts make an executor without a server, so they cannot run here: test_interpreter_shutdown,
    test_submit_after_interpreter_shutdown, test_hang_gh83386, test_cancel_futures_wait_false. Three more look at the threads or
    processes of a pool, which an invoker.Executor does not have: test_context_manager_shutdown, test_del_shutdown,
    test_shutdown_no_wait. This file has a test of its own under each of these names.

    Four do not apply. test_threads_terminate and test_processes_terminate look at nothing but threads and processes.
    test_thread_names_assigned and test_thread_names_default look at threads that run calls, and here none does.
    """

    test_run_after_shutdown = find("ExecutorShutdownTest").test_run_after_shutdown
    test_hang_issue12364 = find("ExecutorShutdownTest").test_hang_issue12364
    test_cancel_futures = find("ExecutorShutdownTest").test_cancel_futures


def their_tests(name):
    return {test for test in dir(find(name)) if test.startswith("test_")}


def test_every_test_of_theirs_is_run_or_said_not_to_apply():
    theirs_all = set()
    for name in ("ExecutorShutdownTest", "ThreadPoolShutdownTest", "ProcessPoolShutdownTest"):
        theirs_all |= their_tests(name)
    ours = {name for name in {*dir(TestShutdown), *globals()} if name.startswith("test_")}
    assert [test for test in sorted(theirs_all - ours) if test not in TestShutdown.__doc__] == []


def run_to_the_end(worker, code):
    """Runs a script that must end by itself, print no error, and give its executors back. Returns its output."""
    with invoker.connect(worker.address) as client:
        before = client.capacity().free_cores
        done = run_script(code, worker.address)
        assert done.stderr == ""
        # The worker may learn of the end a little later.
        assert comes_true(lambda: client.capacity().free_cores == before)
    return done.stdout


def test_interpreter_shutdown(worker):
    """Theirs waits for calls under way. Ours ends them, as docs/guide/python.md says of every client."""
    code = """
        import atexit

        def tell():
            print(type(future.exception()).__name__)

        # Registered before the executor is made, so that it runs after the end of that.
        atexit.register(tell)
        executor = invoker.Executor(ADDRESS, max_workers=2)
        future = executor.submit(time.sleep, 600)
        """
    assert run_to_the_end(worker, code) == "Cancelled\n"


def test_submit_after_interpreter_shutdown(worker):
    """Theirs raises a RuntimeError. Ours makes a future of one, like after any other end of the leases."""
    code = """
        import atexit

        def run_last():
            error = executor.submit(id, None).exception()
            assert isinstance(error, RuntimeError)
            print(error)

        atexit.register(run_last)
        executor = invoker.Executor(ADDRESS, max_workers=2)
        """
    assert run_to_the_end(worker, code) == "every lease of the executor has ended: it was closed\n"


def test_hang_gh83386(worker):
    code = """
        executor = invoker.Executor(ADDRESS, max_workers=2)
        executor.submit(time.sleep, 600)
        executor.shutdown(wait=False)
        """
    assert run_to_the_end(worker, code) == ""


def test_cancel_futures_wait_false(worker):
    code = """
        executor = invoker.Executor(ADDRESS, max_workers=2)
        futures = [executor.submit(time.sleep, 600) for _ in range(50)]
        executor.shutdown(wait=False, cancel_futures=True)
        print(sum(future.cancelled() for future in futures))
        """
    # Two calls are under way for each executor.
    assert run_to_the_end(worker, code) == "46\n"


def test_context_manager_shutdown(worker):
    with invoker.Executor(worker.address, max_workers=2) as executor:
        assert list(executor.map(abs, range(-5, 5))) == [5, 4, 3, 2, 1, 0, 1, 2, 3, 4]


def test_del_shutdown(worker):
    """Nothing but its calls refers to the executor."""
    executor = invoker.Executor(worker.address, max_workers=2)
    results = executor.map(abs, range(-5, 5))
    with invoker.connect(worker.address) as client:
        free = client.capacity().free_cores
        del executor
        assert list(results) == [5, 4, 3, 2, 1, 0, 1, 2, 3, 4]
        del results
        gc.collect()
        assert comes_true(lambda: client.capacity().free_cores == free + 2)


def test_shutdown_no_wait(worker):
    executor = invoker.Executor(worker.address, max_workers=2)
    results = executor.map(abs, range(-5, 5))
    executor.shutdown(wait=False)
    assert list(results) == [5, 4, 3, 2, 1, 0, 1, 2, 3, 4]
    # Waits for the end of the leases, which other tests want.
    executor.shutdown()
