#!/usr/bin/env python3
"""Breaks hosts of a cluster with calls under way, and prints what every client saw.

Eight hosts in a box (examples/cluster/box), with links of 200 Mbit/s and queues of 64 KiB: three have a member of etcd each, five have a
worker, and two of the others a client, which calls one function without end, eight calls at a time, and nothing is tried again. Each
failure is made good before the next one. It lasts for twice the clients' peer timeout, so that no session outlives it.

For each failure and client: the calls that were under way or begun while it lasted, how they ended, how many sessions were followed by
others, how long the longest call took, and how long it took until a new lease of an executor was there. The report fails where a
failure that has to end calls or sessions ends none. At the end each call's fate is compared with how often its function ran.

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
_HALF = (0, 2, 5)  # a client, a member of etcd and a worker, where the network is cut into two
_LEAST_LASTS = 3.0  # seconds that a failure lasts
_THREADS = 8
_PART = _MOST_CALLS // 8  # numbers of one process of a client
# Seconds that a call may take beyond the peer timeout: a heartbeat of the lease, and a turn of each thread on a busy processor.
_MARGIN = 1.0
# A worker's own limit is five seconds. It ends the sessions of a client that is silent for longer.
_CLIENT_STOPPED = 7.0


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
        self._sessions = set()

    def run(self):
        """Answers a line "lease" with how long it took to get one, and "sessions" with how many are new since the last time."""
        threads = [threading.Thread(target=self._call_on) for _ in range(_THREADS)]
        for thread in threads:
            thread.start()
        self._new_sessions()
        print("ready", flush=True)
        for line in sys.stdin:
            print(self._lease() if line == "lease\n" else self._new_sessions(), flush=True)
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

    def _new_sessions(self):
        before, self._sessions = self._sessions, set(self._group.clients)
        return len(self._sessions - before)

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
        self._peer_timeout = peer_timeout
        self.first_numbers = {host: [] for host in _CLIENTS}
        self.clients = {}
        for host in _CLIENTS:
            self.start_client(host)

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

    def await_leader(self):
        """Until all members of etcd answer."""
        limit = time.monotonic() + 60
        while True:
            with contextlib.suppress(subprocess.CalledProcessError, AssertionError):
                self.leader()
                return
            assert time.monotonic() < limit, self.log()
            time.sleep(0.1)

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
            stderr=self._log,
            check=True,
        ).stdout
        for each in json.loads(said):
            if each["Status"]["header"]["member_id"] == each["Status"]["leader"]:
                return next(host for host in _STORES if self.hosts.address(host) + ":" in each["Endpoint"])
        raise AssertionError("etcd has no leader")

    def start_client(self, host):
        """Also again, with other numbers for its calls."""
        first = host * 2 * _PART + len(self.first_numbers[host]) * _PART
        self.first_numbers[host].append(first)
        command = [sys.executable, __file__, "--client", self.cluster, str(first), str(self._peer_timeout)]
        client = self._start(host, *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert client.stdout.readline() == "ready\n", self.log()
        self.clients[host] = client

    def split(self):
        """Cuts the network into _HALF and the rest: the half gets a bridge of its own."""
        self._ip("link", "add", "half", "type", "bridge")
        self._ip("link", "set", "half", "up")
        self._join("half")

    def unite(self):
        """Makes one network of both halves again."""
        self._join("bridge")
        self._ip("link", "del", "half")

    def _join(self, bridge):
        for host in _HALF:
            self._ip("link", "set", "host%d" % host, "master", bridge)

    @staticmethod
    def _ip(*arguments):
        subprocess.run(["ip", *arguments], check=True)


class _Failure:
    """What happens, what makes it good again, and what it does to the clients."""

    def __init__(self, name, breaks, mends, *, lasts=None, hits=_CLIENTS, gone=(), cut_off=(), graceful=False):
        """lasts: seconds; None: as long as others. hits: the clients of which one at least has to lose a call or a session. gone:
        those that do not live to tell. cut_off: those that cannot be promised a lease, nor an answer, before it is over.
        graceful: no call may have an unknown end.
        """
        self.name = name
        self.breaks = breaks
        self.mends = mends
        self.lasts = lasts
        self.hits = hits
        self.gone = gone
        self.cut_off = cut_off
        self.graceful = graceful


def _failures(world):
    """One after the other; what each needs is looked up when it begins."""
    hosts, workers, stores, clients = world.hosts, world.workers, world.stores, world.clients
    leader = None

    def end(process, number):
        process.send_signal(number)
        process.wait()

    def again(host):
        world.start_worker(host)
        world.await_workers()

    def find_leader():
        nonlocal leader
        leader = world.leader()
        return leader

    def start_leader():
        world.start_store(leader)
        world.await_leader()

    return [
        # This is the first, since nobody hears of the calls that a killed client has made.
        _Failure(
            "client 1 killed",
            lambda: end(clients[1], signal.SIGKILL),
            lambda: world.start_client(1),
            hits=(),
            gone=(1,),
        ),
        _Failure("worker killed", lambda: end(workers[5], signal.SIGKILL), lambda: again(5)),
        _Failure(
            "worker stopped",
            lambda: workers[6].send_signal(signal.SIGSTOP),
            lambda: workers[6].send_signal(signal.SIGCONT),
        ),
        _Failure("worker's link cut", lambda: hosts.cut(7), lambda: hosts.heal(7)),
        _Failure("client 1's link cut", lambda: hosts.cut(1), lambda: hosts.heal(1), hits=(1,), cut_off=(1,)),
        _Failure(
            "client 1 stopped",
            lambda: clients[1].send_signal(signal.SIGSTOP),
            lambda: clients[1].send_signal(signal.SIGCONT),
            lasts=_CLIENT_STOPPED,
            hits=(1,),
            cut_off=(1,),
        ),
        _Failure("etcd's leader killed", lambda: end(stores[find_leader()], signal.SIGKILL), start_leader, hits=()),
        _Failure(
            "etcd's leader stopped",
            lambda: stores[find_leader()].send_signal(signal.SIGSTOP),
            lambda: stores[leader].send_signal(signal.SIGCONT),
            hits=(),
        ),
        # Two of these hosts have a worker, too.
        _Failure("etcd's leader cut off", lambda: hosts.cut(find_leader()), lambda: hosts.heal(leader), hits=()),
        _Failure("worker drained", lambda: end(workers[5], signal.SIGTERM), lambda: again(5), hits=(), graceful=True),
        _Failure(
            "two workers cut off",
            lambda: [hosts.cut(host) for host in (5, 6)],
            lambda: [hosts.heal(host) for host in (5, 6)],
        ),
        # Client 0 has one of five workers on its side, and a member of etcd without a leader.
        _Failure("network in two halves", world.split, world.unite),
    ]


def _judge(calls, marks, parts):
    """How many calls ran twice, were answered wrongly, or were told an untruth about."""
    # All that there are, also of processes that were killed.
    twice = sum(len(marks[first : first + _PART].translate(None, b"\0\1")) for first in parts)
    wrong = untrue = 0
    for number, _, _, outcome in calls:
        ran = marks[number]
        wrong += outcome == "wrong"
        untrue += (outcome == "ok" and ran == 0) or (outcome in ("not_sent", "not_executed") and ran != 0)
    return twice, wrong, untrue


class _Row:
    """What one client saw of one failure."""

    def __init__(self, failure, host, begin, end, lease):
        self.failure = failure
        self.host = host
        self.begin = begin
        self.end = end
        self.lease = lease
        self.new_sessions = 0
        self.fates = collections.Counter()
        self.calls = 0
        self.longest = 0.0

    def count(self, calls):
        """Takes in the calls that were under way or begun meanwhile."""
        met = [call for call in calls if call[1] < self.end and call[2] > self.begin]
        self.calls = len(met)
        self.fates = collections.Counter(call[3] for call in met)
        self.longest = max((call[2] - call[1] for call in met), default=0.0)

    @property
    def hit(self):
        """Whether a call ended without a result, or a session was followed by another one."""
        return self.calls > self.fates["ok"] or self.new_sessions > 0

    def late(self, arguments):
        """Whether a call or the lease took longer than is promised."""
        lasted = self.end - self.begin if self.host in self.failure.cut_off else 0
        in_time = self.longest <= arguments.within + lasted
        return not in_time or self.lease > arguments.lease_within + lasted


def _ask(client, word):
    client.stdin.write(word + "\n")
    client.stdin.flush()


def _cause(world, failure, lasts):
    """Lets it happen, and makes it good. Returns a row for each client that lives."""
    begin = time.monotonic()
    failure.breaks()
    asked = [host for host in world.clients if host not in failure.gone]
    for host in asked:
        _ask(world.clients[host], "lease")
    time.sleep(failure.lasts or lasts)
    end = time.monotonic()
    failure.mends()
    rows = [_Row(failure, host, begin, end, float(world.clients[host].stdout.readline())) for host in asked]
    # The clients connect again meanwhile.
    time.sleep(1.5)
    for row in rows:
        _ask(world.clients[row.host], "sessions")
        row.new_sessions = int(world.clients[row.host].stdout.readline())
    return rows


def _report(arguments):
    import hosts as box

    box.enter()
    rows = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as running:
        world = _World(folder, running, arguments.peer_timeout)
        time.sleep(1)
        failures = _failures(world)
        chosen = arguments.failure or [failure.name for failure in failures]
        for failure in (failure for failure in failures if failure.name in chosen):
            rows += _cause(world, failure, max(_LEAST_LASTS, 2 * arguments.peer_timeout))
        calls = {}
        for host, client in world.clients.items():
            client.stdin.close()
            calls[host] = json.loads(client.stdout.read())
        with open(world.marks, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as marks:
            judged = {host: _judge(each, marks, world.first_numbers[host]) for host, each in calls.items()}
    for row in rows:
        row.count(calls[row.host])
    return _print(rows, calls, judged, arguments)


def _print(rows, calls, judged, arguments):
    print("%-22s %6s %7s %7s %8s %8s %6s %8s %9s %8s" % (
        "failure", "client", "calls", "ok", "not sent", "not exec", "maybe", "sessions", "longest s", "lease s"))
    for row in rows:
        fates = row.fates
        print("%-22s %6d %7d %7d %8d %8d %6d %8d %9.2f %8.2f" % (
            row.failure.name, row.host, row.calls, fates["ok"], fates["not_sent"], fates["not_executed"],
            fates["maybe_executed"] + fates["executed"], row.new_sessions, row.longest, row.lease))
    for host, (twice, wrong, untrue) in judged.items():
        print("client %d: %d calls; run twice: %d, answered wrongly: %d, told an untruth about: %d" % (
            host, len(calls[host]), twice, wrong, untrue))
    bad = sum(sum(each) for each in judged.values())
    late = sum(row.late(arguments) for row in rows)
    if late:
        print("%d times later than --within=%g, or --lease-within=%g" % (late, arguments.within, arguments.lease_within))
    lost = sum(row.fates["maybe_executed"] for row in rows if row.failure.graceful)
    if lost:
        print("%d calls of a worker that ended by itself have an unknown end" % lost)
    failures = {row.failure.name: row.failure for row in rows}
    harmless = [
        name
        for name, failure in failures.items()
        if failure.hits and not any(row.hit for row in rows if row.failure is failure and row.host in failure.hits)
    ]
    for name in harmless:
        print("%s: no call and no session was lost, so nothing was tested" % name)
    return 1 if bad or late or lost or harmless else 0


def main():
    """Runs the report, or one client of it."""
    if sys.argv[1:2] == ["--client"]:
        _Client(sys.argv[2], int(sys.argv[3]), float(sys.argv[4])).run()
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-timeout", type=float, default=1.0, help="the clients', in seconds (default: %(default)s)")
    parser.add_argument(
        "--within", type=float, help="each call must have ended by then (default: the peer timeout and %g s)" % _MARGIN
    )
    parser.add_argument("--lease-within", type=float, default=2.0, help="and a new lease be there (default: %(default)s)")
    parser.add_argument("--failure", action="append", metavar="NAME", help="only this one, or these; as the table names them")
    arguments = parser.parse_args()
    if arguments.within is None:
        arguments.within = arguments.peer_timeout + _MARGIN
    return _report(arguments)


sys.exit(main())
