#!/usr/bin/env python3
"""Breaks hosts of a cluster with calls under way, and prints what every client saw.

Eight hosts in a box (examples/cluster/box), with links of 200 Mbit/s and queues of 64 KiB: three have a member of etcd each, five have a
worker, and two of the others a client, which calls one function without end, eight calls at a time, and nothing is tried again. Each
failure is made good before the next one.

For each failure and client: the calls that were under way or begun while it lasted, how they ended, how long the longest took, and how
long it took until a new lease of an executor was there. At the end each call's fate is compared with how often its function ran.

Exit status: 0 all as promised, 1 not, 2 wrong usage.
"""

import argparse
import collections
import contextlib
import json
import mmap
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

# It is started where what it needs is.
ROOT = pathlib.Path.cwd()
sys.path[:0] = [str(ROOT / "examples/cluster/box"), str(ROOT / "src/python")]

_MOST_CALLS = 1 << 26  # marks.h
_CLIENTS = (0, 1)
_STORES = (2, 3, 4)
_WORKERS = (3, 4, 5, 6, 7)
_LASTS = 3.0  # seconds that a failure lasts
_THREADS = 8
_PART = _MOST_CALLS // 4  # numbers of one client


class _Client:
    """The process on a client's host: calls until its input ends, and then prints all calls."""

    def __init__(self, cluster, first, peer_timeout):
        import invoker

        self._group = invoker.connect(
            cluster, provider="tcp;ofi_rxm", peer_timeout=peer_timeout, plaintext=True, cluster_plaintext=True
        )
        self._error = invoker.InvokerError
        self._next = first
        self._lock = threading.Lock()
        self._ended = False
        self._calls = []

    def run(self):
        """Answers a line "lease" with how long it took to get one."""
        threads = [threading.Thread(target=self._call_on) for _ in range(_THREADS)]
        for thread in threads:
            thread.start()
        print("ready", flush=True)
        for _ in sys.stdin:
            print(self._lease(), flush=True)
        self._ended = True
        for thread in threads:
            thread.join()
        json.dump(self._calls, sys.stdout)

    def _call_on(self):
        payload = bytes(1016)
        while not self._ended:
            with self._lock:
                number = self._next
                self._next += 1
            begin = time.monotonic()
            try:
                answer = self._group.call("failure.work", number.to_bytes(8, "little") + payload)
                outcome = "ok" if int.from_bytes(bytes(answer[:8]), "little") == number else "wrong"
            except self._error as error:
                outcome = error.fate
            self._calls.append((number, begin, time.monotonic(), outcome))
            if outcome != "ok":
                time.sleep(0.01)

    def _lease(self):
        begin = time.monotonic()
        while time.monotonic() - begin < 60:
            with contextlib.suppress(self._error):
                with self._group.lease(python=False) as lease:
                    lease.call("echo", b"")
                break
        return time.monotonic() - begin


class _World:
    """The hosts, and what runs on them."""

    def __init__(self, folder, running, peer_timeout):
        import hosts as box

        self._folder = folder
        self._running = running
        self._log = running.enter_context(open(folder + "/log", "w", encoding="utf-8"))
        self.hosts = box.Hosts(8)
        for host in range(8):
            self.hosts.shape(host, rate="200mbit", queue="64kb")
        self.marks = folder + "/marks"
        with open(self.marks, "wb") as marks:
            marks.truncate(_MOST_CALLS)
        self.stores = {host: self._start_store(host) for host in _STORES}
        self.cluster = "etcd://%s/report" % ",".join(self.hosts.address(host) for host in _STORES)
        self.workers = {}
        for host in _WORKERS:
            self.start_worker(host)
        self.await_workers()
        self.clients = {host: self._start_client(host, peer_timeout) for host in _CLIENTS}
        for client in self.clients.values():
            assert client.stdout.readline() == "ready\n", self.log()

    def log(self):
        """The end of what everything has said."""
        return pathlib.Path(self._folder, "log").read_text(encoding="utf-8", errors="replace")[-5000:]

    def _start(self, host, *command, **options):
        process = subprocess.Popen([*self.hosts.on(host), *command], stderr=self._log, text=True, **options)
        self._running.callback(process.wait)
        self._running.callback(process.kill)
        return process

    def _start_store(self, host):
        client, peer = ("http://%s:%d" % (self.hosts.address(host), port) for port in (2379, 2380))
        every = ",".join("m%d=http://%s:2380" % (each, self.hosts.address(each)) for each in _STORES)
        return self._start(
            host,
            "etcd",
            "--name=m%d" % host,
            "--data-dir=%s/etcd%d" % (self._folder, host),
            "--listen-client-urls=" + client,
            "--advertise-client-urls=" + client,
            "--listen-peer-urls=" + peer,
            "--initial-advertise-peer-urls=" + peer,
            "--initial-cluster=" + every,
            stdout=self._log,
        )

    def start_store(self, host):
        """Again, with what it had stored."""
        self.stores[host] = self._start_store(host)

    def start_worker(self, host):
        """Also again."""
        self.workers[host] = self._start(
            host,
            str(ROOT / "tools/invoker_server"),
            "--listen=%s:0" % self.hosts.address(host),
            "--allow-plaintext",
            "--provider=tcp;ofi_rxm",
            "--polling=warm",
            "--lease-cores=2",
            "--lease-memory=512M",
            "--cluster=" + self.cluster,
            "--cluster-plaintext",
            "--functions=%s,%s"
            % (ROOT / "tests/failure/failure_functions.so", ROOT / "examples/functions/libexample_functions.so"),
            env={**os.environ, "INVOKER_FAILURE_MARKS": self.marks, "INVOKER_SERVER_CONFIG": "none"},
            stdout=self._log,
        )

    def await_workers(self):
        """Until all are in the cluster."""
        limit = time.monotonic() + 120
        while True:
            command = [str(ROOT / "tools/invoker"), "members", "--server=" + self.cluster, "--cluster-plaintext"]
            done = subprocess.run(
                [*self.hosts.on(_CLIENTS[0]), *command], stdout=subprocess.PIPE, stderr=self._log, text=True
            )
            # One that was killed a moment ago may be there, too.
            if len(done.stdout.splitlines()) >= len(_WORKERS):
                return
            assert time.monotonic() < limit, self.log()
            time.sleep(0.1)

    def leader(self):
        """The host of etcd's leader."""
        endpoints = ",".join("%s:2379" % self.hosts.address(host) for host in _STORES)
        command = ["etcdctl", "--endpoints=" + endpoints, "endpoint", "status", "--write-out=json"]
        said = subprocess.run(
            [*self.hosts.on(_CLIENTS[0]), *command],
            env={**os.environ, "ETCDCTL_API": "3"},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        for each in json.loads(said):
            if each["Status"]["header"]["member_id"] == each["Status"]["leader"]:
                return next(host for host in _STORES if self.hosts.address(host) + ":" in each["Endpoint"])
        raise AssertionError("etcd has no leader")

    def _start_client(self, host, peer_timeout):
        command = [sys.executable, __file__, "--client", self.cluster, str(host * _PART), str(peer_timeout)]
        return self._start(host, *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _failures(world):
    """Name -> what happens, and what makes it good again."""
    hosts, workers = world.hosts, world.workers

    def end(host, number):
        workers[host].send_signal(number)
        workers[host].wait()

    def again(host):
        world.start_worker(host)
        world.await_workers()

    leader = world.leader()

    def kill_leader():
        world.stores[leader].kill()
        world.stores[leader].wait()

    return {
        "worker killed": (lambda: end(5, signal.SIGKILL), lambda: again(5)),
        "worker stopped": (lambda: workers[6].send_signal(signal.SIGSTOP), lambda: workers[6].send_signal(signal.SIGCONT)),
        "worker's link cut": (lambda: hosts.cut(7), lambda: hosts.heal(7)),
        "client 1's link cut": (lambda: hosts.cut(1), lambda: hosts.heal(1)),
        "etcd's leader killed": (kill_leader, lambda: world.start_store(leader)),
        "worker drained": (lambda: end(5, signal.SIGTERM), lambda: again(5)),
        "two workers cut off": (lambda: [hosts.cut(host) for host in (5, 6)], lambda: [hosts.heal(host) for host in (5, 6)]),
    }


def _judge(calls, marks):
    """How many calls ran twice, were answered wrongly, or were told an untruth about."""
    twice = wrong = untrue = 0
    for number, _, _, outcome in calls:
        ran = marks[number]
        twice += ran > 1
        wrong += outcome == "wrong"
        untrue += (outcome == "ok" and ran == 0) or (outcome in ("not_sent", "not_executed") and ran != 0)
    return twice, wrong, untrue


def _report(arguments):
    import hosts as box

    box.enter()
    rows = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as running:
        world = _World(folder, running, arguments.peer_timeout)
        time.sleep(1)
        for name, (breaks, mends) in _failures(world).items():
            begin = time.monotonic()
            breaks()
            for client in world.clients.values():
                client.stdin.write("lease\n")
                client.stdin.flush()
            time.sleep(_LASTS)
            mends()
            end = time.monotonic()
            leases = {host: float(client.stdout.readline()) for host, client in world.clients.items()}
            rows += [(name, host, begin, end, leases[host]) for host in world.clients]
            time.sleep(1.5)
        calls = {}
        for host, client in world.clients.items():
            client.stdin.close()
            calls[host] = json.loads(client.stdout.read())
        with open(world.marks, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as marks:
            judged = {host: _judge(each, marks) for host, each in calls.items()}
    return _print(rows, calls, judged, arguments)


def _print(rows, calls, judged, arguments):
    print("%-22s %6s %7s %7s %8s %8s %6s %9s %8s" % (
        "failure", "client", "calls", "ok", "not sent", "not exec", "maybe", "longest s", "lease s"))
    late = 0
    for name, host, begin, end, lease in rows:
        met = [call for call in calls[host] if call[1] < end and call[2] > begin]
        fates = collections.Counter(call[3] for call in met)
        longest = max(call[2] - call[1] for call in met)
        # A client without a link gets no lease until it has one again.
        no_link = name == "client 1's link cut" and host == 1
        late += longest > arguments.within or lease > arguments.lease_within + (_LASTS if no_link else 0)
        print("%-22s %6d %7d %7d %8d %8d %6d %9.2f %8.2f" % (
            name, host, len(met), fates["ok"], fates["not_sent"], fates["not_executed"],
            fates["maybe_executed"] + fates["executed"], longest, lease))
    for host, (twice, wrong, untrue) in judged.items():
        print("client %d: %d calls; run twice: %d, answered wrongly: %d, told an untruth about: %d" % (
            host, len(calls[host]), twice, wrong, untrue))
    bad = sum(sum(each) for each in judged.values())
    if late:
        print("%d times later than --within=%g, or --lease-within=%g" % (late, arguments.within, arguments.lease_within))
    return 1 if bad or late else 0


def main():
    """Runs the report, or one client of it."""
    if sys.argv[1:2] == ["--client"]:
        _Client(sys.argv[2], int(sys.argv[3]), float(sys.argv[4])).run()
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-timeout", type=float, default=1.0, help="the clients', in seconds (default: %(default)s)")
    parser.add_argument("--within", type=float, default=1.5, help="each call must have ended by then (default: %(default)s)")
    parser.add_argument("--lease-within", type=float, default=2.0, help="and a new lease be there (default: %(default)s)")
    return _report(parser.parse_args())


sys.exit(main())
