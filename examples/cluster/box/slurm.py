"""Slurm in a box: munged, slurmctld and some slurmd of one's own, on this machine. Needs root.

Debian: slurmctld slurmd slurm-client munge.
"""

import contextlib
import glob
import os
import random
import signal
import socket
import subprocess
import tempfile
import time

# Before a command: it dies with this process.
WITH_THIS = ["setpriv", "--pdeathsig", "KILL", "--"]

_STORES_EVERY = 5  # seconds, of the controller

_CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}({address})
SlurmctldPort={controller_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/{proctrack}
TaskPlugin=task/{task}
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
MailProg=/bin/true
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
SwitchType=switch/none
SlurmctldTimeout=30
SlurmdTimeout=30
KillWait=20
InactiveLimit=0
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=0
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
DefMemPerCPU=64
SlurmdParameters=config_overrides
"""


_CGROUPS = """
CgroupPlugin=autodetect
IgnoreSystemd=yes
ConstrainCores=yes
ConstrainRAMSpace=yes
"""


def _run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    assert done.returncode == 0, "%s: %s" % (command, done.stdout + done.stderr)
    return done.stdout


def _free_port(address):
    with socket.socket() as listener:
        listener.bind((address, 0))
        return listener.getsockname()[1]


def _remove_groups(node):
    """Removes the groups of a node that have no processes. Returns whether none is left."""
    # The inner ones come first.
    groups = sorted(glob.glob("/sys/fs/cgroup/**/*%s*/**/" % node, recursive=True), reverse=True)
    for group in groups:
        with contextlib.suppress(OSError):
            os.rmdir(group)
    return not any(map(os.path.exists, groups))


class Slurm:
    """A context manager. The nodes are n0, n1, ..., each with two cores and 256 MB, as far as Slurm knows."""

    def __init__(self, nodes=4, hosts=None, cgroups=False):
        """A running Slurm.

        hosts: box.Hosts, of which the first one has the controller, and each other one a node; None: all on this one.
        cgroups: jobs are in the kernel's groups, which limit their cores and memory. Nodes have 1 GB then. The groups have
        the nodes' names, so the nodes get names that no other Slurm on this machine has: n0x123.
        """
        self._hosts = hosts
        self._cgroups = cgroups
        # A short path: it holds sockets.
        self._folder = tempfile.TemporaryDirectory(prefix="slurm", dir="/tmp")
        self.folder = self._folder.name
        # munged wants to be sure of everything above its socket, but for a folder with the sticky bit.
        os.chmod(self.folder, 0o755)
        self.address = hosts.address(0) if hosts else "127.%d.%d.%d" % tuple(random.randint(1, 250) for _ in range(3))
        self.nodes = ["n%d%s" % (i, "x%d" % os.getpid() if cgroups else "") for i in range(nodes)]
        self._processes = {}
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SLURM_")},
            "SLURM_CONF": self.folder + "/slurm.conf",
        }
        try:
            self._start_munge()
            self._write_configuration()
            self.start_controller()
            for node in self.nodes:
                self.start_node(node)
            self._await_nodes()
        except BaseException:
            self._stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.run("scancel", "--user=root", check=False)
        # The keeper of a job that has not ended would wait for the controller, which has gone.
        limit = time.monotonic() + 10
        while self.run("squeue", "--noheader", check=False).stdout and time.monotonic() < limit:
            time.sleep(0.1)
        self._stop()

    def _stop(self):
        for name in [*self.nodes, "slurmctld", "munged"]:
            self.kill(name)
        # slurmd leaves its groups, and a job may still be leaving its own.
        limit = time.monotonic() + 10
        while self._cgroups and not all([_remove_groups(node) for node in self.nodes]) and time.monotonic() < limit:
            time.sleep(0.05)
        self._folder.cleanup()

    def start_controller(self):
        """Also again, with what it had stored."""
        self._start("slurmctld", 0, "slurmctld", "-D")

    def start_node(self, node):
        self._start(node, self.nodes.index(node) + 1, "slurmd", "-D", "-N", node)

    def kill(self, name, crashes=False):
        """A node, "slurmctld" or "munged"; jobs on a node go on.

        The controller stores its jobs before it ends, unless it crashes: it writes them every five seconds only, and one that
        crashes forgets the last ones (await_stored).
        """
        process = self._processes.pop(name, None)
        if process is not None:
            process.send_signal(signal.SIGTERM if name == "slurmctld" and not crashes else signal.SIGKILL)
            process.wait()

    @staticmethod
    def await_stored():
        """Waits until the controller has stored the jobs of this moment."""
        time.sleep(_STORES_EVERY + 1)

    def run(self, *command, check=True, **options):
        """Runs a command of Slurm's, and returns what it did."""
        done = subprocess.run(
            [*self._on(0), *command], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr + self.log("slurmctld")
        return done

    def log(self, name):
        with open("%s/%s.log" % (self.folder, name), encoding="utf-8", errors="replace") as log:
            return log.read()[-4000:]

    def _on(self, host):
        return self._hosts.on(host) if self._hosts else []

    def _start(self, name, host, *command):
        log = open("%s/%s.out" % (self.folder, name), "ab")
        with log:
            self._processes[name] = subprocess.Popen(
                [*self._on(host), *WITH_THIS, *command], env=self.environment, stdout=log, stderr=log, cwd=self.folder
            )

    def _start_munge(self):
        key = self.folder + "/munge.key"
        with open(key, "wb") as file:
            file.write(os.urandom(1024))
        os.chmod(key, 0o600)
        self._start(
            "munged",
            0,
            "munged",
            "--foreground",
            "--key-file=" + key,
            *("--%s=%s/munge.%s" % (option, self.folder, name) for option, name in
              [("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed")]),
        )
        self._await(lambda: os.path.exists(self.folder + "/munge.socket"), "munged")

    def _write_configuration(self):
        os.mkdir(self.folder + "/state")
        text = _CONFIGURATION.format(
            host=socket.gethostname(),
            address=self.address,
            controller_port=6817 if self._hosts else _free_port(self.address),
            folder=self.folder,
            proctrack="cgroup" if self._cgroups else "linuxproc",
            task="cgroup" if self._cgroups else "none",
        )
        for i, node in enumerate(self.nodes):
            os.mkdir("%s/%s" % (self.folder, node))
            text += "NodeName=%s NodeHostname=%s NodeAddr=%s Port=%d CPUs=2 RealMemory=%d\n" % (
                node,
                socket.gethostname(),
                self._hosts.address(i + 1) if self._hosts else self.address,
                6818 if self._hosts else _free_port(self.address),
                1024 if self._cgroups else 256,
            )
        every = ",".join(self.nodes)
        text += "PartitionName=low Nodes=%s Default=YES PriorityTier=1 GraceTime=20 PreemptMode=CANCEL\n" % every
        # Without GraceTime: a script of sbatch's hears of its preemption only when that is over.
        text += "PartitionName=cheap Nodes=%s PriorityTier=1 PreemptMode=CANCEL\n" % every
        text += "PartitionName=high Nodes=%s PriorityTier=10 PreemptMode=OFF\n" % every
        with open(self.folder + "/slurm.conf", "w", encoding="utf-8") as file:
            file.write(text)

        # Later releases can do without; earlier ones want /sys/fs/cgroup.
        if self._cgroups or int(_run("slurmd", "-V").split()[-1].split(".")[0]) >= 23:
            with open(self.folder + "/cgroup.conf", "w", encoding="utf-8") as file:
                file.write(_CGROUPS if self._cgroups else "CgroupPlugin=disabled\n")

    def _await_nodes(self):
        idle = lambda: self.run("sinfo", "-h", "-p", "low", "-t", "idle", "-o", "%D", check=False).stdout.strip()
        self._await(lambda: idle() == str(len(self.nodes)), "slurmctld")

    def _await(self, ready, name, seconds=20):
        limit = time.monotonic() + seconds
        while not ready():
            assert self._processes[name].poll() is None and time.monotonic() < limit, "".join(map(self._said, self._processes))
            time.sleep(0.05)

    def _said(self, name):
        with open("%s/%s.out" % (self.folder, name), encoding="utf-8", errors="replace") as out:
            return name + ": " + out.read() + (self.log(name) if os.path.exists("%s/%s.log" % (self.folder, name)) else "")
