"""The hosts of the cluster's failure report, and the processes on them."""

import contextlib
import json
import os
import pathlib
import select
import signal
import subprocess
import time

import cluster_report_client as client
import cluster_report_slurm as slurm
import hosts as box
from cluster_report_failures import CLIENTS

_HOSTS = 8
LINK = {"rate": "20mbit", "queue": "64kb", "delay": "1ms", "loss": 0.001}
_STORES = (2, 3, 4)
_WORKERS = (3, 4, 5, 6, 7)
# Seconds in which something has to happen for which the report waits. It takes much less.
_PATIENCE = 60
_HALF = (0, 2, 5)  # a client, a member of etcd and a worker, where the network is cut into two
_MARKS = 1 << 26  # marks.h
# Debian's has cloudpickle, with which functions are uploaded. Clients and executors have to be of one version.
_PYTHON = "/usr/bin/python3"


class Place:
    """The place where processes run: the hosts, a folder, and a certificate that all processes show one another."""

    def __init__(self, folder, running, root):
        """running: the exit stack that ends the processes. root: the folder of the programs and the package."""
        self.folder = folder
        self.running = running
        self.root = root
        # Executors of uploaded functions run as nobody, and count in the marks.
        os.chmod(folder, 0o755)
        self._log = running.enter_context(open(folder + "/log", "w", encoding="utf-8"))
        self.hosts = box.Hosts(_HOSTS)
        self.delayed = all([self.hosts.shape(host, **LINK) for host in range(_HOSTS)])
        self.certificate, self.key = folder + "/all.pem", folder + "/all.key"
        self._make_certificate()
        ca = self.certificate
        variables = {"TLS_CA": ca, "SERVER_TLS_CLIENT_CA": ca, "CLUSTER_TLS_CA": ca, "SERVER_CONFIG": "none"}
        for role in ("TLS", "SERVER_TLS", "CLUSTER_TLS"):
            variables.update({role + "_CERT": self.certificate, role + "_KEY": self.key})
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(root / "src/python"),
            "ETCDCTL_API": "3",
            **{"INVOKER_" + name: value for name, value in variables.items()},
        }

    def log(self):
        """The last lines that all processes have logged."""
        return pathlib.Path(self.folder, "log").read_text(encoding="utf-8", errors="replace")[-5000:]

    def start(self, host, *command, **options):
        """Starts a process that ends with the report."""
        options = {"env": self.environment, "stdout": self._log, "stderr": self._log, "text": True, **options}
        process = subprocess.Popen([*self.hosts.on(host), *command], **options)
        self.running.callback(process.wait)
        self.running.callback(process.kill)
        return process

    def ask(self, *command):
        """The output of a command on the first client's host; None if it fails."""
        done = subprocess.run(
            [*self.hosts.on(CLIENTS[0]), *command],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        return done.stdout if done.returncode == 0 else None

    def wait(self, happens):
        """Waits until a function returns True."""
        limit = time.monotonic() + _PATIENCE
        while not happens():
            assert time.monotonic() < limit, self.log()
            time.sleep(0.1)

    def _make_certificate(self):
        names = ",".join("IP:" + self.hosts.address(host) for host in range(_HOSTS))
        new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", self.key]
        subject = ["-subj", "/CN=report", "-addext", "subjectAltName=" + names]
        command = ["openssl", "req", "-x509", *new_key, "-out", self.certificate, "-days", "2", *subject]
        subprocess.run(command, check=True, stderr=self._log)


class Stores:
    """Three members of etcd."""

    def __init__(self, place):
        self._place = place
        self.processes = {}
        for host in _STORES:
            self.start(host)

    @property
    def cluster(self):
        """Its URL."""
        return "etcd://%s/report" % ",".join(self._place.hosts.address(host) for host in _STORES)

    def start(self, host):
        """Starts a member, also again with its data."""
        address = self._place.hosts.address
        here, peer = ("https://%s:%d" % (address(host), port) for port in (2379, 2380))
        every = ",".join("m%d=https://%s:2380" % (each, address(each)) for each in _STORES)
        self.processes[host] = self._place.start(
            host,
            "etcd",
            "--name=m%d" % host,
            "--data-dir=%s/etcd%d" % (self._place.folder, host),
            "--listen-client-urls=" + here,
            "--advertise-client-urls=" + here,
            "--listen-peer-urls=" + peer,
            "--initial-advertise-peer-urls=" + peer,
            "--initial-cluster=" + every,
            *self._tls(""),
            *self._tls("peer-"),
        )

    def _tls(self, prefix):
        """The options for one kind of etcd's connections: both sides show the certificate."""
        place = self._place
        files = {"cert-file": place.certificate, "key-file": place.key, "trusted-ca-file": place.certificate}
        return ["--%s%s=%s" % (prefix, name, path) for name, path in files.items()] + ["--%sclient-cert-auth" % prefix]

    def wait(self):
        """Waits until the members have a leader."""
        self.leader()

    def leader(self):
        """The leader's host. Waits until there is one."""
        leader = None

        def is_there():
            nonlocal leader
            leader = self._leader()
            return leader is not None

        self._place.wait(is_there)
        return leader

    def _leader(self):
        place = self._place
        endpoints = ",".join("%s:2379" % place.hosts.address(host) for host in _STORES)
        tls = ["--cacert=" + place.certificate, "--cert=" + place.certificate, "--key=" + place.key]
        said = place.ask("etcdctl", "--endpoints=" + endpoints, *tls, "endpoint", "status", "--write-out=json")
        for each in json.loads(said or "[]"):
            # A member without a leader names none.
            if each["Status"]["header"]["member_id"] == each["Status"].get("leader"):
                return next(host for host in _STORES if place.hosts.address(host) + ":" in each["Endpoint"])
        return None


class Workers:
    """A worker on each of five hosts."""

    def __init__(self, place, cluster):
        self._place = place
        self._cluster = cluster
        self.marks = MarksFile(place.folder + "/marks")
        self.processes = {}
        for host in _WORKERS:
            self.start(host)
        self._place.wait(lambda: self._members() >= len(_WORKERS))

    def options(self):
        """The options that do not depend on the host."""
        libraries = ("tests/failure/failure_functions.so", "examples/functions/libexample_functions.so")
        return [
            "--provider=tcp;ofi_rxm",
            "--polling=warm",
            "--lease-cores=6",
            "--lease-memory=1536M",
            "--allow-upload=python",
            "--python=" + _PYTHON,
            "--prestart-python=1",
            "--functions=" + ",".join(str(self._place.root / library) for library in libraries),
        ]

    def start(self, host):
        """Starts a worker, also again."""
        self.processes[host] = self.start_one(host, self.marks)

    def start_one(self, host, marks):
        """Starts a worker that counts in these marks. Returns the process."""
        return self._place.start(
            host,
            str(self._place.root / "tools/invoker_server"),
            "--listen=%s:0" % self._place.hosts.address(host),
            "--cluster=" + self._cluster,
            *self.options(),
            env={**self._place.environment, **marks.environment},
        )

    def _members(self):
        """How many the cluster has."""
        said = self._place.ask(str(self._place.root / "tools/invoker"), "members", "--server=" + self._cluster)
        return len((said or "").splitlines())


class Guests:
    """Workers that join the cluster while it works, and leave it."""

    # None of these hosts has another worker.
    HOSTS = (0, 2, 1)

    def __init__(self, place, workers):
        self._place = place
        self._workers = workers
        # Each has its own, so that the calls which it ran are known.
        self.marks = {host: MarksFile("%s/guest%d_marks" % (place.folder, host)) for host in self.HOSTS}
        self._processes = {}

    @property
    def size(self):
        """How many are there."""
        return len(self._processes)

    def join(self, hosts):
        """Starts a worker on each of the hosts without one, and waits until maps run there."""
        for host in hosts:
            if host not in self._processes:
                self._processes[host] = self._workers.start_one(host, self.marks[host])
        self.await_map_items(hosts)

    def await_map_items(self, hosts):
        """Waits until each of the workers has executed an item of a map that it had not executed at this moment."""
        before = {host: self._map_items(host) for host in hosts}
        self._place.wait(lambda: all(self._map_items(host) > before[host] for host in hosts))

    def leave(self, hosts):
        """Drains the workers, and waits until they have ended."""
        for host in hosts:
            self._processes[host].send_signal(signal.SIGTERM)
        for host in hosts:
            process = self._processes.pop(host)
            assert process.wait(_PATIENCE) == 0, self._place.log()

    def _map_items(self, host):
        """How many items of all clients' maps the worker has executed."""
        offset = client.KINDS.index("map") * client.NUMBERS_OF_A_KIND
        with open(self.marks[host].path, "rb") as file:
            count = 0
            for first in range(offset, _MARKS, client.NUMBERS):
                file.seek(first)
                part = file.read(client.NUMBERS_OF_A_KIND)
                count += len(part) - part.count(0)
        return count


class MarksFile:
    """The file in which functions count how often each number's call ran."""

    def __init__(self, path):
        self.path = path
        with open(path, "wb") as file:
            file.truncate(_MARKS)
        os.chmod(path, 0o666)

    @property
    def environment(self):
        """The variable with which a worker finds it."""
        return {"INVOKER_FAILURE_MARKS": self.path}


class Clients:
    """The programs that call."""

    def __init__(self, place, cluster, marks, peer_timeout):
        self._place = place
        self._arguments = [str(peer_timeout), str(len(_WORKERS)), marks.path]
        self._cluster = cluster
        self.first_numbers = {host: [] for host in CLIENTS}
        self.processes = {}
        for host in CLIENTS:
            self.start(host)

    def start(self, host):
        """Starts a client, also again with other numbers for its calls."""
        firsts = self.first_numbers[host]
        firsts.append(sum(map(len, self.first_numbers.values())) * client.NUMBERS)
        assert firsts[-1] + client.NUMBERS <= _MARKS
        self.processes[host] = self._place.start(
            host,
            _PYTHON,
            client.__file__,
            self._cluster,
            str(firsts[-1]),
            *self._arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def await_work(self, workers):
        """Waits until each client has a session with so many workers, and all its work goes on."""
        limit = time.monotonic() + _PATIENCE
        for process in self.processes.values():
            process.stdin.write("%d\n" % workers)
            process.stdin.flush()
        for host, process in self.processes.items():
            said, _, _ = select.select([process.stdout], [], [], max(0, limit - time.monotonic()))
            assert said, "client %d: its work does not go on\n%s" % (host, self._place.log())
            assert process.stdout.readline() == "ready\n", self._place.log()

    def end(self):
        """Ends them. Returns the ends of their calls: by host and kind, as Work.seen() of cluster_report_client."""
        seen = {}
        for host, process in self.processes.items():
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            said = process.stdout.read()
            assert process.wait() == 0, self._place.log()
            seen[host] = json.loads(said)
        return seen


class World:
    """The whole cluster."""

    def __init__(self, folder, running, root, peer_timeout):
        self._place = Place(folder, running, root)
        self.hosts = self._place.hosts
        self.delayed = self._place.delayed
        self.stores = Stores(self._place)
        self.workers = Workers(self._place, self.stores.cluster)
        self.guests = Guests(self._place, self.workers)
        self.pool = slurm.Pool(self._place, self.stores.cluster, self.workers, MarksFile(folder + "/slurm_marks"))
        self.clients = Clients(self._place, self.stores.cluster, self.workers.marks, peer_timeout)

    @property
    def marks(self):
        """The paths of all files of marks."""
        return [marks.path for marks in (self.workers.marks, *self.guests.marks.values(), self.pool.marks)]

    def await_work(self):
        """Waits until the clients reach all workers, and all their work goes on."""
        self.clients.await_work(len(_WORKERS) + self.guests.size + self.pool.size)

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
