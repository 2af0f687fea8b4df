"""Workers that Slurm starts, for the cluster's failure report."""

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

    def start(self):
        """Starts Slurm and the pool, and waits for the workers."""
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
            env={**self._place.environment, **self.marks.environment, "SLURM_CONF": self._slurm.environment["SLURM_CONF"]},
            cwd=self._place.folder,
        )
        self._workers.wait(others=_NODES)
        self._slurm.await_stored()
        self._jobs = self._running()

    def kill_controller(self):
        """Kills the controller like a crash, which stores nothing more."""
        self._slurm.kill("slurmctld", crashes=True)

    def start_controller(self):
        """Starts the controller again, and waits until it has found the same jobs."""
        self._slurm.start_controller()
        self._place.wait(lambda: self._running() == self._jobs)

    def _running(self):
        """The jobs that run."""
        return sorted(self._slurm.run("squeue", "--noheader", "--states=RUNNING", "--format=%i", check=False).stdout.split())
