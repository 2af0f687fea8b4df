"""Leases over several members of a cluster: placing executors, uploading to them, replacing lost ones."""

import os
import signal
import threading

import invoker
import numpy
import pytest
from conftest import Server, comes_true
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
        prefix = "/invoker/%s/loads/" % self.address.rpartition("/")[2]
        return sum(load.get("free_cores", 0) for load in self._etcd.entries(prefix).values()) == self._cores

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
