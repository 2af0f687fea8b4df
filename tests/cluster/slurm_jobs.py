"""What the tests of jobs and of pools in Slurm have in common."""

import os
import sys

import pytest
from conftest import LIBRARIES
from slurm import Slurm

INVOKER = os.path.abspath("tools/invoker")

# shm does not outlive a worker that is killed, and memory is not what is tested here.
WORKER = [
    "--worker=--functions=" + LIBRARIES,
    "--worker=--provider=tcp;ofi_rxm",
    "--worker=--hot-timeout=1ms",
]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="slurmd needs root")


def start(nodes, **options):
    """Slurm, whose jobs' programs and executors import the package."""
    slurm = Slurm(nodes, **options)
    slurm.environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return slurm
