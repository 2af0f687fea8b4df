"""Answers that find no room in the response, and what goes wrong between the function's end and their being fetched."""

import asyncio
import threading
import time

import invoker
import numpy
import pytest
from conftest import PROVIDERS, Serving

COUNT = 400_000  # 8 bytes each: several times what a window takes


@pytest.fixture(params=PROVIDERS)
def doomed(request):
    """A server of remote_functions.py that the test may kill."""
    running = Serving(request.param)
    yield running
    if running.process.returncode is None:
        running.kill()


def before_fetching(client, act):
    """Has the client call act(deadline), for the deadline to fetch by, when it has been told of a kept answer."""
    plain_fetch = client._calls.frames._fetch

    def fetch(function, deadline, session, ticket, size):
        return plain_fetch(function, act(deadline), session, ticket, size)

    client._calls.frames._fetch = fetch


WAYS = {
    "call": lambda function, *args: function(*args),
    "submit": lambda function, *args: function.submit(*args).result(),
    "acall": lambda function, *args: asyncio.run(function.acall(*args)),
}


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


def has_ended(call):
    """Whether it says that its session takes no more calls."""
    try:
        call()
    except invoker.Unavailable:
        return True
    return False


def fails_unfetched(client, way, error):
    """Whether the call fails like this, and says that the function may have run."""
    with pytest.raises(error, match="arange has run, and its answer could not be fetched: .") as caught:
        way(client.remote("arange"), COUNT)
    return caught.value.fate == "maybe_executed"


def test_a_worker_that_is_lost_before_the_answer_is_fetched_may_have_run_the_function(doomed, way):
    with invoker.connect(doomed.address) as client:

        def act(deadline):
            doomed.kill()
            # From now on a call would not be sent.
            while not has_ended(client.ping):
                pass
            return deadline

        before_fetching(client, act)
        assert fails_unfetched(client, way, invoker.Unavailable)


def test_a_client_that_is_closed_before_the_answer_is_fetched_may_have_run_the_function(doomed, way):
    with invoker.connect(doomed.address) as client:
        before_fetching(client, lambda deadline: client.close())
        assert fails_unfetched(client, way, invoker.FailedPrecondition)


def test_a_deadline_that_passes_before_the_answer_is_fetched_may_have_run_the_function(doomed, way):
    with invoker.connect(doomed.address) as client:
        before_fetching(client, lambda deadline: time.monotonic() - 1)
        assert fails_unfetched(client, way, invoker.DeadlineExceeded)


def test_an_answer_that_is_kept_no_more_is_still_the_functions_failure(doomed, way):
    with invoker.connect(doomed.address) as client:
        plain_fetch = client._calls.frames._fetch
        client._calls.frames._fetch = lambda function, deadline, session, ticket, size: plain_fetch(
            function, deadline, session, -1, size
        )
        with pytest.raises(invoker.FunctionFailed, match="no longer kept") as caught:
            way(client.remote("arange"), COUNT)
        assert caught.value.fate == "executed"


def test_a_group_notices_that_a_worker_is_lost_before_the_answer_is_fetched(doomed):
    with invoker.connect(doomed.address, reconnect=True) as group:
        (client,) = group.clients

        def act(deadline):
            doomed.kill()
            while not has_ended(client.ping):
                pass
            return deadline

        before_fetching(group, act)
        assert fails_unfetched(group, WAYS["call"], invoker.Unavailable)
        with pytest.raises(invoker.Unavailable, match="connects again"):
            group.remote("add")(1)


def test_a_draining_server_still_gives_the_answers_that_it_keeps(way):
    entered = threading.Event()
    leave = threading.Event()

    def wait():
        entered.set()
        leave.wait()

    functions = {"arange": numpy.arange, "add": lambda a, b=0: a + b, "wait": wait}
    server = invoker.serve(
        {name: invoker.pickled(function) for name, function in functions.items()},
        # A client in the server's own process.
        provider="tcp;ofi_rxm",
        window=1 << 18,
        executors=2,
    )
    closing = threading.Thread(target=server.close)
    try:
        with invoker.connect(server.address) as holder, invoker.connect(server.address) as client:
            held = holder.remote("wait").submit()
            entered.wait()
            # By the other executor.
            assert client.remote("add")(1) == 1

            def act(deadline):
                closing.start()
                while not has_ended(lambda: client.remote("add")(1)):
                    pass
                return deadline

            before_fetching(client, act)
            assert numpy.array_equal(way(client.remote("arange"), COUNT), numpy.arange(COUNT))
            with pytest.raises(invoker.Unavailable, match="draining") as caught:
                client.remote("add")(1)
            assert caught.value.fate == "not_executed"
            leave.set()
            assert held.result() is None
    finally:
        leave.set()
        if closing.ident is not None:
            closing.join()
        server.close()
