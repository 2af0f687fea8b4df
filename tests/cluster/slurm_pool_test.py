"""Pools of workers in Slurm: real slurmctld, slurmd and munge."""

import contextlib
import os
import subprocess
import sys
import time

import invoker
import pytest
import slurm_jobs
from conftest import OWN_USER, WITH_THE_TEST, comes_true
from etcd import Etcd

NODES = 2
# With it, a job has a whole node.
CORES = 2

pytestmark = slurm_jobs.needs_root


@pytest.fixture(scope="module")
def slurm():
    with slurm_jobs.start(NODES) as running:
        yield running


@pytest.fixture
def folder(tmp_path):
    # slurmd does not need to be root's to read it.
    return tmp_path


@contextlib.contextmanager
def pool(slurm, cluster, folder, *options):
    process = subprocess.Popen(
        [
            *WITH_THE_TEST,
            slurm_jobs.INVOKER,
            "pool",
            "--slurm",
            "--cluster=" + cluster,
            *slurm_jobs.WORKER,
            *options,
        ],
        env=slurm.environment,
        cwd=folder,
        stderr=open(folder / "pool", "a"),
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def jobs_in(slurm, state):
    """The pool's jobs: other ones are in another partition."""
    options = ["--noheader", "--partition=low,cheap", "--states=" + state, "--format=%i"]
    return slurm.run("squeue", *options, check=False).stdout.split()


def end_jobs(slurm, members):
    """Ends the jobs that a pool has left, once it has gone."""
    for job in jobs_in(slurm, "RUNNING"):
        slurm.run("scancel", "--batch", "--signal=TERM", job)
    assert comes_true(lambda: not members() and not jobs_in(slurm, "RUNNING"))


def test_a_pool_grows_while_leases_wait_shrinks_by_draining_and_outlives_the_controller(slurm, folder):
    with Etcd() as etcd:
        cluster = etcd.address("pool")
        members = lambda: etcd.entries("/invoker/pool/members/")
        said = lambda: (folder / "pool").read_text()
        with pool(slurm, cluster, folder, "--min=1", "--max=3", "--idle=3s") as process:
            assert comes_true(lambda: len(members()) == 1)
            # One worker has one core.
            with invoker.connect(cluster) as group:
                first = group.lease(executors=1)
                # It waits until there is another worker.
                second = group.lease(executors=1, wait=60)
                assert comes_true(lambda: len(members()) >= 2), said()
                # Slurm does not answer for a while: nothing changes, and nothing ends.
                slurm.kill("slurmctld")
                assert comes_true(lambda: "the pool stays as it is" in said(), 90), said()
                assert bytes(second.call("echo", b"here")) == b"here" and process.poll() is None
                slurm.start_controller()
                assert comes_true(lambda: "answer again" in said()), said()
                first.close()
                second.close()
                assert comes_true(lambda: len(members()) == 1), said()
                # A worker leaves the cluster before it has ended.
                assert comes_true(lambda: len(group._native.servers()) == 1)
                assert bytes(group.call("echo", b"left")) == b"left"
        # The job that is left stays, and the next pool has it.
        assert comes_true(lambda: len(jobs_in(slurm, "RUNNING")) == 1), said()
        with pool(slurm, cluster, folder, "--min=2", "--max=2", "--idle=1s"):
            assert comes_true(lambda: len(members()) == 2), said()
        end_jobs(slurm, members)


def test_a_lease_for_many_workers_makes_a_pool_grow(slurm, folder):
    with Etcd() as etcd:
        with pool(slurm, etcd.address("many"), folder, "--min=1", "--max=4"):
            members = lambda: etcd.entries("/invoker/many/members/")
            assert comes_true(lambda: len(members()) == 1), (folder / "pool").read_text()
            # One worker has one core.
            with invoker.connect(etcd.address("many")) as group, group.lease(executors=4, wait=120) as lease:
                assert len(lease) == 4 and len(members()) == 4
        end_jobs(slurm, members)


def test_a_pool_says_what_is_wrong_and_pauses(slurm, folder):
    def fails(*options):
        done = slurm.run(slurm_jobs.INVOKER, "pool", "--slurm", *options, cwd=folder, check=False)
        return done.returncode, done.stderr

    status, said = fails("--cluster=etcd://127.0.0.1:9/pool", "--min=3", "--max=2")
    assert status == 1 and "--min is 3 and --max 2" in said
    status, said = fails("--cluster=etcd://127.0.0.1:9/pool", "--max=2", "--sbatch=partition")
    assert status == 1 and "no option of sbatch's" in said
    with Etcd() as etcd:
        with pool(slurm, etcd.address("bad"), folder, "--max=1", "--worker=--window=3"):
            assert comes_true(lambda: "have ended before their workers were in the cluster" in (folder / "pool").read_text())


@contextlib.contextmanager
def preemption(slurm, folder, job):
    """While it lasts, another job has all nodes."""
    command = ["srun", "--nodes=%d" % NODES, "--cpus-per-task=%d" % CORES, "--partition=high"]
    wait = "until [ -e over ]; do sleep 0.1; done"
    other = subprocess.Popen([*WITH_THE_TEST, *command, "sh", "-c", wait], env=slurm.environment, cwd=folder)
    try:
        yield
        # The pool's next job waits for that one's end.
        assert comes_true(lambda: jobs_in(slurm, "PENDING") not in ([], [job]))
    finally:
        (folder / "over").touch()
        assert comes_true(lambda: other.poll() is not None) or other.kill()


@contextlib.contextmanager
def time_limit(slurm, folder, job):
    """It has been reached. Slurm looks every 30 s."""
    slurm.run("scontrol", "update", "JobId=" + job, "EndTime=now+1")
    yield


@pytest.mark.parametrize("end", [preemption, time_limit])
def test_a_job_that_slurm_ends_drains_and_is_replaced(slurm, folder, end):
    options = [
        "--sbatch=--partition=cheap",
        "--sbatch=--cpus-per-task=%d" % CORES,
        "--worker=--python=" + sys.executable,
        "--worker=--allow-upload=python",
        # The test says when the call ends.
        "--worker=--drain-timeout=15s",
        "--worker=" + OWN_USER,
    ]
    go, ran, begun = (str(folder / name) for name in ("go", "ran", "begun"))
    with Etcd() as etcd:
        members = lambda: etcd.entries("/invoker/ends/members/")
        with pool(slurm, etcd.address("ends"), folder, "--min=1", "--max=1", *options):
            assert comes_true(lambda: len(members()) == 1), (folder / "pool").read_text()
            (job,) = jobs_in(slurm, "RUNNING")
            (first,) = members()
            with invoker.connect(etcd.address("ends")) as group, group.lease(executors=1, replace=True) as lease:

                @lease.function
                def run(number):
                    with open(ran, "a") as file:
                        file.write("%d\n" % number)
                    open(begun, "w").close()
                    while number == 0 and not os.path.exists(go):
                        time.sleep(0.01)
                    return number

                calls = [run.submit(number) for number in range(4)]
                assert comes_true(lambda: os.path.exists(begun))
                with end(slurm, folder, job):
                    assert comes_true(lambda: first not in members(), 90), slurm.log("slurmctld")
                    (folder / "go").touch()
                    # The call that ran has its result. The others have ended as they say.
                    assert calls[0].result() == 0
                    done = [call.exception() for call in calls]
                    counts = [(folder / "ran").read_text().split().count(str(number)) for number in range(4)]
                    assert counts == [1 if error is None else 0 for error in done], done
                    assert {error.fate for error in done if error} <= {"not_sent", "not_executed"}
                assert comes_true(lambda: members() and jobs_in(slurm, "RUNNING") not in ([], [job]))
                # The lease has an executor of the new worker.
                assert comes_true(lambda: run(5) == 5)
        end_jobs(slurm, members)
