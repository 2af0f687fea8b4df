"""Workers that Slurm starts, for the cluster's failure report."""

import pathlib
import re
import time

import slurm

_NODES = 2  # on the second host and the third one; the controller is on the first


class Pool:
    """`invoker pool` with a worker on each node, in the cluster of the other workers."""

    PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch")

    def __init__(self, place, cluster, workers, marks):
        """marks: a MarksFile of Slurm's workers alone, so that the calls which they ran are known."""
        self._place = place
        self._cluster = cluster
        self._workers = workers
        self.marks = marks
        self._slurm = None
        self._jobs = None
        self._slurmd_start = None

    @property
    def size(self):
        """How many workers it has."""
        return 0 if self._slurm is None else _NODES

    def start(self):
        """Starts Slurm and the pool, unless they run, and waits until each node has a job."""
        if self._slurm is not None:
            return
        self._slurm = self._place.running.enter_context(slurm.Slurm(_NODES, self._place.hosts))
        self._place.start(
            0,
            str(self._place.root / "tools/invoker"),
            "pool",
            "--slurm",
            "--cluster=" + self._cluster,
            "--min=%d" % _NODES,
            "--max=%d" % _NODES,
            "--sbatch=--exclusive",
            *("--worker=" + option for option in self._workers.options()),
            env={
                **self._place.environment,
                **self.marks.environment,
                "SLURM_CONF": self._slurm.environment["SLURM_CONF"],
            },
            cwd=self._place.folder,
        )
        self._place.wait(lambda: len(self._running()) == _NODES)
        self._jobs = self._running()
        self._await_stored()

    def kill_controller(self):
        """Kills the controller like a crash, which stores nothing more."""
        self._slurm.kill("slurmctld", crashes=True)

    def start_controller(self):
        """Starts the controller again, and waits until it has found the same jobs."""
        self._slurm.start_controller()
        self._place.wait(lambda: self._running() == self._jobs)

    def kill_node(self):
        """Kills slurmd on the first node. Its job goes on."""
        self._slurmd_start = self._find_slurmd_start()
        self._slurm.kill(self._slurm.nodes[0])

    def start_node(self):
        """Starts slurmd again, and waits until the controller has heard of it, and has the same jobs."""
        self._slurm.start_node(self._slurm.nodes[0])
        self._place.wait(lambda: self._find_slurmd_start() != self._slurmd_start)
        self._place.wait(lambda: self._running() == self._jobs)

    def _await_stored(self):
        """Waits until the controller has stored the jobs. It does so within some seconds, unless it crashes."""
        starts = self._ask("squeue", "--noheader", "--format=%S").split()
        latest = max(time.mktime(time.strptime(start, "%Y-%m-%dT%H:%M:%S")) for start in starts)
        stored = pathlib.Path(self._slurm.folder, "state", "job_state")
        # Slurm tells seconds. A file from a later second has all that happened in this one.
        self._place.wait(lambda: stored.exists() and stored.stat().st_mtime >= latest + 1)

    def _running(self):
        """The jobs that run."""
        return sorted(self._ask("squeue", "--noheader", "--states=RUNNING", "--format=%i").split())

    def _find_slurmd_start(self):
        """When slurmd on the first node started, as the controller knows it."""
        found = re.search(r"SlurmdStartTime=(\S+)", self._ask("scontrol", "show", "node", self._slurm.nodes[0]))
        # No answer: the moment is not known to have changed.
        return found.group(1) if found else self._slurmd_start

    def _ask(self, *command):
        return self._slurm.run(*command, check=False).stdout
