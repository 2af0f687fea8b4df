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


@pytest.mark.skipif(not may_make_hosts(), reason="this system permits no network namespaces, or no bridges")
@pytest.mark.parametrize(
    "example, joined", [("etcd", "workers on hosts 7 and 8 join"), ("slurm", "joined: job")]
)
def test_nothing_is_lost_while_a_host_is_killed_one_drains_and_two_join(example, joined):
    done = subprocess.run(
        [sys.executable, "examples/cluster/%s/run" % example, "--pictures=500"],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok: every thumbnail is there" in done.stdout
    assert joined in done.stdout
