"""Several servers as one: least-loaded dispatch, and what happens when one goes."""

import asyncio
import threading
import time

import invoker
import pytest
from conftest import Server


def raise_unavailable():
    raise invoker.Unavailable("what it needs has gone")


class Worker:
    """A server of this process whose function waits until it is let go."""

    def __init__(self, name):
        self.name = name
        self.entered = threading.Semaphore(0)
        self.leave = threading.Event()
        self.server = invoker.serve(
            {
                "name": lambda request: name.encode(),
                "wait": self.wait,
                "echo": bytes,
                "only." + name: bytes,
                "add": invoker.pickled(lambda a, b: (name, a + b)),
                "join": invoker.pickled(lambda a, b: a + b),
                "away": invoker.pickled(raise_unavailable),
            }
        )

    def wait(self, request):
        self.entered.release()
        self.leave.wait()
        return self.name.encode()

    def close(self):
        self.leave.set()
        self.server.close()


@pytest.fixture
def workers():
    running = [Worker("a"), Worker("b")]
    yield running
    for worker in running:
        worker.close()


@pytest.fixture
def group(workers):
    with invoker.connect(", ".join(worker.server.address for worker in workers)) as opened:
        yield opened


def test_calls_go_to_the_least_loaded(workers, group):
    assert len(group) == 2 and "of 2" in repr(group)
    first = group.submit("wait")
    waiting = bytes(group.submit("name").result())
    # The other one, again and again.
    assert all(bytes(group.call("name")) == waiting for _ in range(5))
    for worker in workers:
        worker.leave.set()
    assert bytes(first.result()) != waiting
    # With none under way, each in turn.
    assert {bytes(group.call("name")) for _ in range(2)} == {b"a", b"b"}


def test_every_way_of_calling(group):
    assert {bytes(x) for x in group.map("name", [b""] * 20)} <= {b"a", b"b"}
    name = group.function("name")
    assert name.name == "name" and bytes(name()) in (b"a", b"b")
    assert bytes(name.submit(b"").result()) in (b"a", b"b")
    assert bytes(asyncio.run(name.acall())) in (b"a", b"b")
    assert bytes(asyncio.run(group.acall("name"))) in (b"a", b"b")
    add = group.remote("add")
    assert add(1, b=2)[1] == 3 and add.submit(1, 2).result()[1] == 3
    assert asyncio.run(add.acall(1, 2))[1] == 3
    assert {add(1, 2)[0] for _ in range(2)} == {"a", "b"}
    assert group.ping(100) > 0 and group.max_payload > 0
    assert group.capacity().cores == 0


def test_a_large_payload_goes_every_way(group):
    large = bytes(range(256)) * (group.max_payload // 256 + 1)
    out = bytearray(len(large))
    echo = group.function("echo")
    assert echo(large) == large and echo(large, retry=1, out=out) == large == out
    assert echo.submit(large).result() == large == echo.submit(large, retry=1).result()
    assert asyncio.run(echo.acall(large)) == large
    out = bytearray(len(large))
    assert group.submit("echo", large, out=out).result() == large == out
    assert all(result == large for result in group.map("echo", [large] * 3))
    assert len(group.remote("join")(large, large)) == 2 * len(large)
    assert group.remote("join").submit(large, b"").result() == large


def test_a_call_sends_what_its_data_was_when_it_was_made(workers, group):
    holding = [group.submit("wait") for _ in workers]
    data = [bytearray(b"x" * size) for size in (10, group.max_payload // 4, group.max_payload + 1)]
    futures = [group.submit("echo", each) for each in data]
    for each in data:
        each[:] = b"y" * len(each)
    for worker in workers:
        worker.leave.set()
    assert [set(future.result().tobytes()) for future in futures] == [set(b"x")] * 3
    assert all(future.result() for future in holding)


def test_only_what_all_have_is_listed(group):
    assert group.functions() == ["name", "wait", "echo", "add", "join", "away"]
    with pytest.raises(invoker.NotFound):
        group.function("only.a")


def test_errors_of_calls_are_the_callers(group):
    for _ in range(2):
        with pytest.raises(TypeError):
            group.remote("add")(1, None)
        with pytest.raises(invoker.NotFound):
            group.submit("nope")


def test_a_function_that_raises_unavailable_does_not_take_its_worker_away(group):
    away = group.remote("away")
    for _ in range(4):
        with pytest.raises(invoker.Unavailable, match="what it needs"):
            away()
        with pytest.raises(invoker.Unavailable, match="what it needs"):
            away.submit().result()
        with pytest.raises(invoker.Unavailable, match="what it needs"):
            asyncio.run(away.acall())
    assert {bytes(group.call("name")) for _ in range(2)} == {b"a", b"b"}


def test_a_lease_is_taken_where_the_most_cores_are_free_and_its_terms_can_be_met():
    plain = Server("auto", "--lease-cores=3")
    python = Server("auto", "--lease-cores=2", "--allow-upload=python", "--python=/usr/bin/python3")
    try:
        with invoker.connect("%s,%s" % (python.address, plain.address)) as group:
            first = group.lease(python=False)
            assert first.server == plain.address
            # Two are free here and there.
            with group.lease(executors=4, python=False) as every:
                assert set(every.server.split(",")) == {plain.address, python.address}
                with pytest.raises(invoker.ResourceExhausted):
                    group.lease()
            first.close()
            # The one with more has no Python.
            with group.lease(python=True) as lease:
                assert lease.server == python.address
            with pytest.raises(invoker.InvalidArgument):
                group.lease(executors=6, python=False)
            with group.lease(executors=2, python=True) as last, group.lease(executors=3, python=False):
                closing = threading.Timer(0.2, last.close)
                closing.start()
                with pytest.raises(invoker.ResourceExhausted):
                    group.lease(executors=3, python=False, wait=0.1)
                closing.join()
                with group.lease(python=True, wait=60) as waited:
                    assert waited.server == python.address
    finally:
        plain.stop()
        python.stop()


def test_a_server_that_has_gone_gets_no_more_calls(workers, group):
    workers[0].close()
    failed = 0
    for _ in range(10):
        try:
            assert bytes(group.call("name")) == b"b"
        except invoker.Unavailable:
            failed += 1
    assert failed <= 1
    workers[1].close()
    with pytest.raises(invoker.Unavailable):
        for _ in range(3):
            group.call("name")


def test_all_or_none_are_connected(workers):
    with pytest.raises(invoker.InvokerError):
        invoker.connect(workers[0].server.address + ",nowhere")
    with pytest.raises(invoker.ResourceExhausted):
        invoker.connect(",".join(worker.server.address for worker in workers)).lease()


def test_a_function_learns_that_its_call_was_cancelled():
    entered = threading.Event()
    told = threading.Event()
    may_return = threading.Semaphore(0)

    def ask(request):
        entered.set()
        while not invoker.cancelled():
            time.sleep(0.001)
        told.set()
        # An answer that comes just before the caller has looked at its clock is an answer.
        may_return.acquire()
        return b""

    assert not invoker.cancelled()
    with invoker.serve({"ask": ask}) as server, invoker.connect(server.address) as client:
        future = client.submit("ask")
        entered.wait()
        assert future.cancel()
        told.wait()
        may_return.release()
        told.clear()
        entered.clear()
        timeout = 0.05
        # On a busy machine it may not begin before.
        while not entered.is_set():
            with pytest.raises(TimeoutError):
                client.call("ask", timeout=timeout)
            timeout *= 4
        told.wait()
        may_return.release()
