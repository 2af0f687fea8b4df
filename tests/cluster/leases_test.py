"""Leases over several members of a cluster: placing executors, uploading to them, replacing lost ones."""

import contextlib
import os
import pathlib
import signal
import threading
import time

import invoker
import numpy
import pytest
from conftest import OWN_USER, Server, comes_true
from etcd import Etcd

PROVIDER = "tcp;ofi_rxm"


@pytest.fixture(scope="module")
def etcd():
    with Etcd() as running:
        yield running


class Cluster:
    """Its servers, with two cores each unless told otherwise."""

    def __init__(self, etcd, address):
        self._etcd = etcd
        self.address = address
        self.servers = []
        self._cores = 0

    def start(self, *options, cores=2):
        self._cores += cores
        self.servers.append(
            Server(
                PROVIDER,
                "--cluster=" + self.address,
                "--lease-cores=%d" % cores,
                "--lease-memory=1G",
                "--python=/usr/bin/python3",
                "--allow-upload=python",
                *options,
            )
        )
        return self.servers[-1]

    def free(self):
        """Whether the cluster knows that no core is leased."""
        return sum(self._free_cores()) == self._cores

    def full(self):
        """Whether the cluster knows that all cores are leased."""
        return self._free_cores() == [0] * len(self.servers)

    def _free_cores(self):
        prefix = "/invoker/%s/loads/" % self.address.rpartition("/")[2]
        return [load.get("free_cores", 0) for load in self._etcd.entries(prefix).values()]

    def connect(self):
        group = invoker.connect(self.address)
        assert comes_true(lambda: len(group._native.servers()) == len(self.servers))
        return group


@pytest.fixture
def cluster(etcd, request):
    made = Cluster(etcd, etcd.address(request.node.name.replace("[", ".").replace("]", "")[:64]))
    yield made
    for server in made.servers:
        if server.process.returncode is None:
            server.stop()


def by_server(lease):
    """How many executors are where."""
    counts = {}
    for client in lease._native.clients():
        counts[client.server] = counts.get(client.server, 0) + 1
    return counts


def test_a_lease_is_of_executors_on_several_members_as_of_one(cluster):
    first, second = cluster.start(), cluster.start()
    with cluster.connect() as group, group.lease(executors=4, memory="64M") as lease:
        assert by_server(lease) == {first.address: 2, second.address: 2}
        assert set(lease.server.split(",")) == {first.address, second.address}
        assert lease.terms["executors"] == 4 and lease.terms["memory"] == 64 << 20

        @lease.function
        def total(array, factor):
            return array.sum() * factor

        shared = lease.put(numpy.arange(10))
        assert list(total.map([shared] * 20, range(20))) == [45 * i for i in range(20)]
        assert "total" in lease.functions()
        with pytest.raises(invoker.ResourceExhausted):
            group.lease()
        assert lease.usage.calls >= 20
        bill = lease.close()
        assert bill.cause == "released" and bill.calls >= 20


def test_fewer_will_do_and_labels_choose(cluster):
    cluster.start("--label=zone=a")
    second = cluster.start("--label=zone=b", cores=1)
    with cluster.connect() as group:
        with pytest.raises(invoker.InvokerError):
            group.lease(executors=5)
        with pytest.raises(invoker.ResourceExhausted, match="3 executors in all, and at least 4"):
            group.lease(executors=5, at_least=4)
        assert comes_true(cluster.free)
        with group.lease(executors=5, at_least=2) as lease:
            assert len(lease) == 3
        with group.lease(labels={"zone": "b"}) as lease:
            assert lease.server == second.address
        with pytest.raises(invoker.NotFound, match="zone=c"):
            group.lease(labels={"zone": "c"})
        for wrong in ({"at_least": 2}, {"spread": 3}, {"labels": {"zone": 1}}):
            with pytest.raises((invoker.InvalidArgument, TypeError)):
                group.lease(executors=1, **wrong)


def test_executors_are_spread_over_the_values_of_a_label(cluster):
    for zone, cores in (("a", 6), ("a", 6), ("b", 4)):
        cluster.start("--label=zone=" + zone, cores=cores)
    zone_of = dict(zip([server.address for server in cluster.servers], "aab"))
    with cluster.connect() as group:
        with group.lease(executors=6, memory="32M", spread="zone") as lease:
            zones = [zone_of[client.server] for client in lease._native.clients()]
            assert zones.count("a") == zones.count("b") == 3
        assert comes_true(cluster.free)
        # What the smaller one does not have, the other has.
        with group.lease(executors=10, memory="32M", spread="zone") as lease:
            zones = [zone_of[client.server] for client in lease._native.clients()]
            assert zones.count("b") == 4
        assert comes_true(cluster.free)
        with group.lease(executors=6, memory="32M", spread="server") as lease:
            assert sorted(by_server(lease).values()) == [2, 2, 2]


def test_no_member_stands_in_for_slow_ones_with_more_than_it_has(cluster):
    for _ in range(3):
        cluster.start(cores=1)
    slow = cluster.servers[1:]
    with cluster.connect() as group:
        for server in slow:
            server.process.send_signal(signal.SIGSTOP)

        def go_on():
            for server in slow:
                server.process.send_signal(signal.SIGCONT)

        # Longer than one server is waited for while there are others.
        later = threading.Timer(1.5, go_on)
        later.start()
        with group.lease(executors=3, spread="server") as lease:
            assert by_server(lease) == {server.address: 1 for server in cluster.servers}
        later.join()


def test_a_lease_that_waits_gets_executors_of_a_member_that_joins(cluster):
    cluster.start(cores=1)
    with cluster.connect() as group, group.lease():
        got = []
        # More than the cluster has at all.
        waiter = threading.Thread(target=lambda: got.append(group.lease(executors=2, wait=120)))
        waiter.start()
        assert comes_true(lambda: group.capacity().waiting == 1)
        joined = cluster.start()
        waiter.join()
        assert by_server(got[0]) == {joined.address: 2}
        got[0].close()


def test_clients_that_wait_in_several_lines_all_get_what_they_want(cluster):
    for _ in range(3):
        cluster.start()
    with cluster.connect() as group, invoker.connect(cluster.address) as other:
        ends = []

        def take(clients):
            for _ in range(3):
                with clients.lease(executors=4, memory="32M", wait=120):
                    pass
            ends.append("done")

        threads = [threading.Thread(target=take, args=(clients,)) for clients in (group, other, group)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ends == ["done"] * 3


def test_executors_of_a_lost_server_are_replaced(cluster):
    first, second, third = cluster.start(), cluster.start(), cluster.start()
    with cluster.connect() as group, group.lease(
        executors=4, memory="64M", spread="server", replace=True
    ) as lease:

        @lease.function
        def double(x):
            return 2 * x

        assert list(double.map(range(8))) == [2 * i for i in range(8)]
        names = set(by_server(lease))
        victim = next(server for server in cluster.servers if server.address in names)
        lost = by_server(lease)[victim.address]
        futures = [double.submit(i) for i in range(4)]
        victim.process.kill()
        victim.process.wait()
        for future in futures:
            # With a result, or with a fate.
            error = future.exception()
            assert error is None or error.fate in ("not_sent", "maybe_executed")
        assert comes_true(lambda: victim.address not in lease._native.servers() and len(lease._native.servers()) == 2)
        assert comes_true(lambda: victim.address not in by_server(lease))
        assert sum(by_server(lease).values()) == 4 and lost > 0
        # What was registered is there, too.
        assert list(double.map(range(40))) == [2 * i for i in range(40)]
        assert lease.ended is None


def test_one_lease_replaces_executors_of_two_lost_servers(cluster):
    for _ in range(4):
        cluster.start(cores=1)
    with cluster.connect() as group, group.lease(executors=4, memory="64M", replace=True) as lease:
        assert sorted(by_server(lease).values()) == [1, 1, 1, 1]

        @lease.function
        def double(x):
            return 2 * x

        assert list(double.map(range(8))) == [2 * i for i in range(8)]
        # Nobody looks for a free core where there is none.
        assert comes_true(cluster.full)
        victims, others = cluster.servers[:2], cluster.servers[2:]
        for victim in victims:
            victim.kill()
        # The lease knows that both have been lost before there is anything to replace them.
        assert comes_true(lambda: set(lease._native.servers()) == {server.address for server in others})
        joined = cluster.start(cores=2)
        wanted = {**{server.address: 1 for server in others}, joined.address: 2}
        assert comes_true(lambda: by_server(lease) == wanted)
        assert comes_true(lambda: len(lease._native.servers()) == 3)

        # None of these asks a server that has gone.
        @lease.function
        def triple(array):
            return 3 * int(array.sum())

        shared = lease.put(numpy.arange(4))
        assert list(triple.map([shared] * 8)) == [18] * 8
        assert list(double.map(range(40))) == [2 * i for i in range(40)]
        assert lease.usage.calls >= 48
        assert len(lease) == 4 and lease.ended is None


def children_of(process):
    tasks = pathlib.Path("/proc/%d/task" % process).glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def descendants_of(process):
    return [each for child in children_of(process) for each in (child, *descendants_of(child))]


@contextlib.contextmanager
def stopped(server):
    """Stops a server and all that it has started. Yields what lets its executors go on: nobody tells them to end then."""
    # The server's own child starts the executors.
    keepers = [server.process.pid, *children_of(server.process.pid)]
    executors = [process for process in descendants_of(server.process.pid) if process not in keepers]

    def send(processes, number):
        for process in processes:
            # An executor may have ended.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    send(keepers + executors, signal.SIGSTOP)
    try:
        yield lambda: send(executors, signal.SIGCONT)
    finally:
        send(executors + keepers, signal.SIGCONT)


def test_a_late_answer_of_an_executor_that_was_replaced_is_ignored(cluster, tmp_path):
    for _ in range(3):
        cluster.start(OWN_USER)
    with cluster.connect() as group, group.lease(
        executors=4, memory="64M", spread="server", replace=True
    ) as lease:
        folder = str(tmp_path)

        @lease.function
        def work(number):
            def mark(text):
                with open(os.path.join(folder, text), "a") as file:
                    file.write("x")

            mark("begun.%d" % number)
            while not os.path.exists(os.path.join(folder, "gate")):
                time.sleep(0.01)
            mark("ended.%d" % number)
            return number

        @lease.function
        def double(x):
            return 2 * x

        def marked(word):
            return {int(path.suffix[1:]): path.read_text() for path in tmp_path.glob(word + ".*")}

        shares = by_server(lease)
        victim = next(server for server in cluster.servers if server.address in shares)
        futures = [work.submit(number) for number in range(4)]
        answers = [0] * 4

        def count(future):
            answers[futures.index(future)] += 1

        for future in futures:
            future.add_done_callback(count)
        # Each executor is in the middle of one of the calls.
        assert comes_true(lambda: len(marked("begun")) == 4)
        with stopped(victim) as go_on:
            (tmp_path / "gate").touch()
            errors = [future.exception() for future in futures]
            fenced = {number for number, error in enumerate(errors) if error is not None}
            assert len(fenced) == shares[victim.address]
            assert {errors[number].fate for number in fenced} == {"maybe_executed"}
            assert comes_true(lambda: victim.address not in by_server(lease))
            assert set(marked("ended")) == set(range(4)) - fenced
            go_on()
            # They finish their calls, and answer.
            assert comes_true(lambda: len(marked("ended")) == 4)
            assert list(double.map(range(100))) == [2 * i for i in range(100)]
        assert [future.exception() for future in futures] == errors
        assert [future.result() for number, future in enumerate(futures) if number not in fenced] == sorted(
            set(range(4)) - fenced
        )
        assert answers == [1] * 4
        assert set(marked("begun").values()) == set(marked("ended").values()) == {"x"}
        assert victim.address not in by_server(lease)
        assert len(lease) == sum(by_server(lease).values()) == 4 and lease.ended is None


def test_a_silent_member_holds_up_neither_leases_nor_uploads(cluster):
    for _ in range(2):
        cluster.start(OWN_USER)
    with cluster.connect() as group, group.lease(executors=2, memory="64M", spread="server") as lease:
        (silent,) = [server for server in cluster.servers if server.address == group._native.servers()[0]]
        with stopped(silent):
            # Nobody has noticed yet.
            with group.lease(memory="64M") as other:
                assert by_server(other).keys() == {server.address for server in cluster.servers} - {silent.address}
            assert comes_true(lambda: silent.address not in group._native.servers())
            # Else it would wait for a minute.
            with pytest.raises(invoker.Unavailable):
                lease.function(lambda x: x)


def test_a_lease_does_not_wait_for_a_member_of_etcd_that_is_silent():
    with Etcd(3) as store:
        cluster = Cluster(store, store.address("silent"))
        cluster.start()
        try:
            with cluster.connect() as group:
                with group.lease(python=False) as lease:
                    assert lease.call("echo", b"x") == b"x"
                silent = store.members[0]
                silent.process.send_signal(signal.SIGSTOP)
                try:
                    took = []
                    for _ in range(3):
                        begin = time.monotonic()
                        with group.lease(python=False) as lease:
                            took.append(time.monotonic() - begin)
                            assert lease.call("echo", b"x") == b"x"
                    # The promise is two seconds for each. The machine may be busy for one of them.
                    assert min(took) < 2, took
                finally:
                    silent.process.send_signal(signal.SIGCONT)
        finally:
            for server in cluster.servers:
                server.stop()


def test_what_a_function_has_ended_is_not_replaced(cluster):
    cluster.start(), cluster.start()
    with cluster.connect() as group, group.lease(executors=2, memory="64M", spread="server", replace=True) as lease:
        @lease.function
        def crash():
            os.abort()

        with pytest.raises(invoker.Aborted):
            crash()
        # One lease has ended, and the other goes on.
        assert bytes(lease.call("echo", b"here")) == b"here"
        assert lease.ended is None and len(by_server(lease)) == 2
