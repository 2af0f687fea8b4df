"""The examples with eight hosts in network namespaces: etcd with workers, and a pool in Slurm."""

import os
import subprocess
import sys

import pytest

# What they need is beside the test.
ENVIRONMENT = {**os.environ, "INVOKER_BIN": os.getcwd()}


def may_make_hosts():
    """Whether this system permits network namespaces."""
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "ip", "link", "add", "bridge", "type", "bridge"]
    return os.geteuid() == 0 and subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0


pytestmark = pytest.mark.skipif(not may_make_hosts(), reason="this system permits no network namespaces, or no bridges")


def run(example, *options):
    """What an example prints."""
    done = subprocess.run(
        [sys.executable, "examples/cluster/" + example, *options],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "example, joined", [("etcd", "workers on hosts 7 and 8 join"), ("slurm", "joined: job")]
)
def test_nothing_is_lost_while_a_host_is_killed_one_drains_and_two_join(example, joined):
    said = run(example + "/run", "--pictures=500")
    assert "ok: every thumbnail is there" in said and joined in said


def test_a_job_over_eight_hosts_brings_its_function_and_its_data_along():
    said = run("slurm/job")
    assert "2000 calls on 8 nodes" in said and "ok: the job has ended" in said
