"""What leases are made of here: names and code of functions, sizes, bills. No server."""

import functools
import os
import pickle
import resource
import subprocess
import sys

import invoker
import pytest
from invoker import executor
from invoker._pickle import framed, shipping
from invoker._calls.leasing import limit_seconds, parse_bytes


def here(x):
    return helper(x) + 1


def helper(x):
    return 2 * x


def load_elsewhere(function, arguments, tmp_path):
    """What the function returns in a process that has never seen this file."""
    (tmp_path / "code").write_bytes(shipping.dumps(function))
    code = "import pickle, sys; print(repr(pickle.load(open(sys.argv[1], 'rb'))(*eval(sys.argv[2]))))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "code"), repr(arguments)],
        cwd=tmp_path,
        env={"PATH": "/usr/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_function_takes_along_what_it_uses(tmp_path):
    offset = 100
    assert load_elsewhere(here, (3,), tmp_path) == "7"
    assert load_elsewhere(lambda x: here(x) + offset, (3,), tmp_path) == "107"
    assert load_elsewhere(functools.partial(here, 5), (), tmp_path) == "11"


def test_shipping_leaves_cloudpickle_as_it_was():
    import cloudpickle

    before = set(cloudpickle.list_registry_pickle_by_value())
    shipping.dumps(here)
    assert set(cloudpickle.list_registry_pickle_by_value()) == before


def test_what_cannot_be_shipped_is_refused():
    lock = __import__("threading").Lock()
    with pytest.raises(TypeError, match="pickle"):
        shipping.dumps(lambda: lock)


@pytest.mark.parametrize(
    "function, taken, name",
    [
        (here, (), "here"),
        (here, {"here"}, "here-2"),
        (here, {"here", "here-2"}, "here-3"),
        (lambda: 0, (), "lambda"),
        (functools.partial(here, 1), (), "here"),
        (len, (), "len"),
        (str.upper, (), "str.upper"),
    ],
)
def test_names_are_allowed_and_free(function, taken, name):
    assert shipping.name_for(function, taken) == name


def test_an_executor_loads_only_what_is_callable(tmp_path):
    file = tmp_path / "code"
    file.write_bytes(pickle.dumps(3))
    with pytest.raises(TypeError, match="int.*callable"):
        executor.load(str(file))


@pytest.mark.parametrize(
    "given, size",
    [(None, 0), (1, 1), ("5", 5), ("512M", 512 << 20), ("1.5G", 3 << 29), ("4k", 4096), (" 2 GiB ", 2 << 30), ("7MB", 7 << 20)],
)
def test_sizes(given, size):
    assert parse_bytes(given) == size


@pytest.mark.parametrize("given", [0, -1, "", "M", "much", "nan", "-5M", "1e30"])
def test_what_is_no_size(given):
    with pytest.raises(invoker.InvalidArgument, match="memory="):
        parse_bytes(given)


def test_the_shortest_limit_is_a_limit():
    # And not none, which 0 microseconds would mean on the wire.
    assert limit_seconds("ttl", 1e-9) == 1e-6 and limit_seconds("ttl", 2) == 2 and limit_seconds("ttl", None) == 0
    for wrong in (0, -1, float("nan")):
        with pytest.raises(invoker.InvalidArgument, match="ttl"):
            limit_seconds("ttl", wrong)


def test_a_bill_reads_well():
    usage = invoker.Usage(
        cause="crashed", reason="signal 11", lease_time=2.5, memory_byte_seconds=3 << 29, calls=7, bytes_in=2048
    )
    lines = str(usage).splitlines()
    assert lines[0] == "lease           crashed: signal 11"
    assert "memory          1.500 GiB-seconds" in lines and "calls           7" in lines
    assert "data in         2.0 KiB" in lines and "data out        0 B" in lines


def test_the_executors_program_is_not_for_people():
    done = subprocess.run([sys.executable, "-m", "invoker.executor"], capture_output=True, text=True)
    assert done.returncode == 2 and "invoker_server" in done.stderr


def test_a_bill_that_is_not_known_is_none_of_zeros():
    usage = invoker.Usage.unknown("nobody answered")
    assert not usage.known and usage.cause == "unknown" and usage.calls != 0
    assert str(usage) == "lease           unknown: nobody answered"
    assert invoker.Usage().known


def test_answers_that_nobody_fetches_are_bounded_in_bytes(monkeypatch):
    monkeypatch.setattr(framed, "_MOST_BYTES", 1000)
    monkeypatch.setattr(framed, "_share", lambda: 1000)
    kept = framed._Kept()
    room = bytearray(2000)

    def fetch(ticket, size):
        return kept.fetch(ticket, 0, size, memoryview(room))

    tickets = [kept.add(bytearray(300)) for _ in range(4)]
    with pytest.raises(LookupError):
        fetch(tickets[0], 300)
    assert fetch(tickets[1], 300) == 300
    # What has been fetched counts no more.
    tickets.append(kept.add(bytearray(300)))
    assert fetch(tickets[2], 300) == 300
    # The newest two stay, however large they are.
    large = [kept.add(bytearray(1500)) for _ in range(2)]
    with pytest.raises(LookupError):
        fetch(tickets[4], 300)
    assert [fetch(ticket, 1500) for ticket in large] == [1500, 1500]
    # No fewer are ever left.
    small = [kept.add(bytearray(10)) for _ in range(100)]
    assert all(fetch(ticket, 10) == 10 for ticket in small)


def test_the_share_of_memory_is_part_of_what_the_process_may_have():
    limit = resource.getrlimit(resource.RLIMIT_AS)
    before = framed._share()
    assert 0 < before <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
    assert limit[0] == resource.RLIM_INFINITY or before <= limit[0] // 4
