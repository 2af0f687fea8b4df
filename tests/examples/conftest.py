"""A server that leases executors, as the examples need it, one for each provider."""

import ctypes
import json
import os
import pwd
import signal
import subprocess
import sys

import pytest

PROVIDERS = ["tcp;ofi_rxm", "shm"]
FUNCTIONS = "examples/functions/libexample_functions.so"

_libc = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def _die_with_the_test():
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Server:
    """An invoker_server with three cores to lease."""

    def __init__(self, *options):
        self.process = subprocess.Popen(
            [
                "tools/invoker_server",
                "--listen=127.0.0.1:0",
                "--functions=" + os.path.abspath(FUNCTIONS),
                "--lease-cores=3",
                "--python=/usr/bin/python3",
                # shm works between processes of one user only.
                "--executor-user=" + pwd.getpwuid(os.geteuid()).pw_name,
                "--hot-timeout=1ms",
                "--allow-upload=all",
                *options,
            ],
            stdout=subprocess.PIPE,
            preexec_fn=_die_with_the_test,
        )
        line = self.process.stdout.readline()
        assert line, "the server did not start: exit code %s" % self.process.wait()
        self.address = json.loads(line)["listen"]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait() == 0
        self.process.stdout.close()


@pytest.fixture(scope="session", params=PROVIDERS)
def server(request):
    running = Server("--provider=" + request.param)
    yield running
    running.stop()


# Runs a program that does not say for how long its server may be silent, which is longer beside other tests than by default.
_PATIENT = """
import runpy, sys
import invoker
invoker.connect.__kwdefaults__["peer_timeout"] = 20.0
sys.argv = sys.argv[1:]
sys.path[0] = sys.argv[0].rpartition("/")[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(*command):
    """A program to its end; Python ones with warnings as errors."""
    if command[0].endswith(".py"):
        command = (sys.executable, "-X", "dev", "-W", "error", "-c", _PATIENT, *command)
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_die_with_the_test
    )
