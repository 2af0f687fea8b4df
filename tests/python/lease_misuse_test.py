"""Leases in the hands of programs that do what they should not: wrong arguments, signals, forks, uses after the end."""

import asyncio
import os
import signal

import invoker
import pytest
from conftest import run_script

UPLOADED = os.path.abspath("tests/functions/c_functions.so")


def helper(array):
    return array * 2


@pytest.fixture
def client(worker):
    with invoker.connect(worker.address) as opened:
        yield opened


@pytest.mark.parametrize(
    "terms, error",
    [
        ({"executors": "2"}, TypeError),
        ({"executors": 1.5}, TypeError),
        ({"executors": None}, TypeError),
        ({"executors": 10**12}, ValueError),
        ({"memory": []}, TypeError),
        ({"memory": float("nan")}, ValueError),
        ({"ttl": "5"}, TypeError),
        ({"ttl": 0}, ValueError),
        ({"call_limit": float("nan")}, ValueError),
        ({"wait": "x"}, TypeError),
        ({"wait": -1}, ValueError),
        ({"hot_timeout": -1}, ValueError),
        ({"polling": 5}, ValueError),
        ({"tenant": 5}, TypeError),
        ({"tenant": "\udcff"}, ValueError),
        ({"python": "yes"}, TypeError),
    ],
    ids=ascii,
)
def test_terms_that_make_no_sense_are_named(client, terms, error):
    (name,) = terms
    with pytest.raises(error, match="%s(=| must be| is not)" % name):
        client.lease(**terms)


def test_a_closed_lease_says_so(client):
    lease = client.lease()
    add = lease.register(lambda x: x + 1, name="add")
    lease.close()
    for use in (lambda: add(1), lambda: add.submit(1), lambda: asyncio.run(add.acall(1)), lambda: list(add.map([1])),
                lambda: lease.call("echo"), lambda: lease.register(len), lambda: lease.upload(UPLOADED)):
        with pytest.raises(invoker.FailedPrecondition, match="the lease has been closed"):
            use()


def test_names_of_functions_are_checked(client):
    with client.lease() as lease:
        for register in (lease.register, client.register):
            with pytest.raises(TypeError, match="^name must be a str, not int$"):
                register(helper, name=5)
            with pytest.raises(TypeError, match="callable"):
                register("helper")
        for name in ("", "with space", "x" * 200):
            with pytest.raises(invoker.InvalidArgument, match="not allowed"):
                lease.register(helper, name=name)


def test_a_map_that_is_given_up_keeps_no_lease(worker):
    run_script(
        """
        import gc, weakref
        gc.disable()
        with invoker.connect(ADDRESS) as client:
            lease = client.lease()
            add = lease.register(lambda x: x + 1, name="add")
            results = add.map(range(100))
            assert next(results) == 1
            gone = threading.Event()
            lease_gone = weakref.finalize(lease._calls, gone.set)
            # Calls are under way; the lease goes with the last of them.
            del results, add, lease
            gone.wait()
        """,
        worker.address,
    )


def test_an_executor_that_is_killed_in_the_middle_of_a_map_ends_it(client, rendezvous):
    # The other executor may be behind, and a lease that has ended refuses what it has not begun. So the results before
    # this one are here first.
    release = rendezvous.path + b".release"

    def one_of_them(n):
        if n == 30:
            with open(release, "rb", buffering=0) as end:
                end.read(1)
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    with client.lease(executors=2) as lease:
        one = lease.register(one_of_them, name="one")
        results = []
        with pytest.raises(invoker.Aborted, match="SIGKILL"):
            for result in one.map(range(100)):
                results.append(result)
                if result == 29:
                    rendezvous.release()
        # In order, and none that was not to come.
        assert results == list(range(len(results))) and len(results) <= 30
        assert lease.usage.cause == "crashed"


def test_ctrl_c_ends_a_map_and_leaves_the_lease(worker):
    run_script(
        """
        import itertools
        with invoker.connect(ADDRESS) as client, client.lease(executors=2) as lease:
            wait = lease.register(lambda seconds: (time.sleep(seconds), seconds)[1], name="wait")
            try:
                threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
                for _ in wait.map(itertools.repeat(0.01)):
                    pass
            except KeyboardInterrupt:
                pass
            assert list(wait.map([0, 0.01])) == [0, 0.01]
            assert lease.close().cause == "released"
        """,
        worker.address,
    )


def test_a_forked_process_cannot_use_a_lease(worker):
    done = run_script(
        """
        with invoker.connect(ADDRESS) as client, client.lease() as lease:
            child = os.fork()
            if child == 0:
                for use in (lambda: lease.call("echo"), lease.functions, lambda: lease.terms):
                    try:
                        use()
                    except invoker.FailedPrecondition as error:
                        assert "fork" in str(error), error
                    else:
                        os._exit(7)
                lease.close()
                os._exit(5)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert status == 5, status
            assert lease.call("echo", b"x") == b"x"
        """,
        worker.address,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_process_that_was_forked_after_the_first_use_is_refused(worker):
    done = run_script(
        """
        def refused(*uses):
            for use in uses:
                try:
                    use()
                except invoker.FailedPrecondition as error:
                    assert "forked" in str(error) and "spawn" in str(error), error
                else:
                    return 7
            return 5

        before = os.fork()
        if before == 0:
            # Nothing has been used yet.
            with invoker.connect(ADDRESS) as client:
                os._exit(5 if client.call("echo", b"x") == b"x" else 7)
        assert os.waitstatus_to_exitcode(os.waitpid(before, 0)[1]) == 5
        with invoker.connect(ADDRESS) as client:
            child = os.fork()
            if child == 0:
                os._exit(refused(lambda: invoker.connect(ADDRESS), client.capacity, client.lease,
                                 lambda: invoker.serve({"f": bytes})))
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert status == 5, status
            assert client.call("echo", b"x") == b"x"
        """,
        worker.address,
        check=False,
    )
    assert done.returncode == 0, done.stderr
