"""etcd for the tests: one member or three, each at an address of its own."""

import json
import os
import random
import subprocess
import tempfile
import time

from conftest import WITH_THE_TEST

_CLIENT = 2379
_PEER = 2380


def loopback_address():
    """On the loopback interface, where no other test listens."""
    return "127.%d.%d.%d" % tuple(random.randint(1, 250) for _ in range(3))


class Member:
    """One process of etcd."""

    def __init__(self, name, address, initial, folder, options):
        self.name = name
        self.endpoint = "%s:%d" % (address, _CLIENT)
        self._scheme = "https" if any(option.startswith("--cert-file") for option in options) else "http"
        client = "%s://%s" % (self._scheme, self.endpoint)
        peer = "http://%s:%d" % (address, _PEER)
        self._command = [
            *WITH_THE_TEST,
            "etcd",
            "--name=" + name,
            "--data-dir=" + os.path.join(folder, name),
            "--listen-client-urls=" + client,
            "--advertise-client-urls=" + client,
            "--listen-peer-urls=" + peer,
            "--initial-advertise-peer-urls=" + peer,
            "--initial-cluster=" + initial,
            # Beside other tests it may get no processor for a while.
            "--heartbeat-interval=200",
            "--election-timeout=1000",
            *options,
        ]
        self._log = os.path.join(folder, name + ".log")
        self.process = None
        self.start()

    def start(self):
        """Also again, with what it had stored."""
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self):
        self.process.kill()
        self.process.wait()


class Etcd:
    """A store. A context manager."""

    def __init__(self, members=1, *options, control=(), addresses=None):
        """options: of each process; control: of etcdctl; addresses: IP addresses of the members."""
        self._folder = tempfile.TemporaryDirectory()
        addresses = addresses or [loopback_address() for _ in range(members)]
        initial = ",".join("m%d=http://%s:%d" % (i, address, _PEER) for i, address in enumerate(addresses))
        self._control = list(control)
        self.members = [
            Member("m%d" % i, address, initial, self._folder.name, options) for i, address in enumerate(addresses)
        ]
        self.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for member in self.members:
            member.kill()
        self._folder.cleanup()

    @property
    def endpoints(self):
        return ",".join(member.endpoint for member in self.members)

    def address(self, name):
        """What clients and servers call a cluster in it."""
        return "etcd://%s/%s" % (self.endpoints, name)

    def wait(self, seconds=60):
        """Until it answers."""
        limit = time.monotonic() + seconds
        while True:
            done = self._run("endpoint", "health")
            if done.returncode == 0:
                return
            assert time.monotonic() < limit, done.stdout + done.stderr

    def ctl(self, *arguments):
        """What etcdctl prints."""
        done = self._run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def entries(self, prefix):
        """The keys that begin with it, and their values from JSON."""
        lines = self.ctl("get", "--prefix", prefix).splitlines()
        return {key: json.loads(value) for key, value in zip(lines[::2], lines[1::2])}

    def leader(self):
        """The member that the others follow."""
        status = json.loads(self.ctl("endpoint", "status", "--write-out=json"))
        for each in status:
            if each["Status"]["header"]["member_id"] == each["Status"]["leader"]:
                endpoint = each["Endpoint"].rpartition("//")[2]
                return next(member for member in self.members if member.endpoint == endpoint)
        raise AssertionError("etcd has no leader")

    def _run(self, *arguments):
        alive = [member.endpoint for member in self.members if member.process.poll() is None]
        return subprocess.run(
            ["etcdctl", "--endpoints=" + ",".join(alive), "--command-timeout=10s", *self._control, *arguments],
            env={**os.environ, "ETCDCTL_API": "3"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
