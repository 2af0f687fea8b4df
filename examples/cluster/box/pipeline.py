"""Thumbnails of many pictures by the workers of a cluster, with something happening meanwhile."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
BINARIES = pathlib.Path(os.environ.get("INVOKER_BIN") or ROOT / "bazel-bin")
INVOKER = str(BINARIES / "tools/invoker")
SERVER = str(BINARIES / "tools/invoker_server")
# shm is faster, and would reach the other hosts of a box, which are this machine.
WORKER = [
    "--provider=tcp;ofi_rxm",
    "--functions=" + str(BINARIES / "examples/functions/libexample_functions.so"),
    "--hot-timeout=1ms",
    "--allow-plaintext",
]
MAKE_PHOTOGRAPHS = str(ROOT / "examples/python/make_photographs.py")


def say(text):
    print(text, flush=True)


class Pipeline:
    """A folder of pictures, and one for their thumbnails."""

    def __init__(self, pictures, on_host, cluster):
        """on_host: what comes before a command that is to run on the client's host."""
        self._folder = tempfile.TemporaryDirectory()
        self._on_host = on_host
        self._cluster = cluster
        self._pictures = pictures
        self._inputs = pathlib.Path(self._folder.name, "in")
        subprocess.run(
            [sys.executable, MAKE_PHOTOGRAPHS, "--output=%s" % self._inputs, "--count=%d" % pictures],
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def run(self, name, events=()):
        """Makes all thumbnails. events: (how many are there, what to do), in their order. Returns what each picture became."""
        outputs = pathlib.Path(self._folder.name, name)
        outputs.mkdir()
        begin = time.monotonic()
        mapping = subprocess.Popen(
            [
                *self._on_host,
                INVOKER,
                "map",
                "thumbnail",
                "--server=" + self._cluster,
                "--inputs=%s" % self._inputs,
                "--outputs=%s" % outputs,
                # A thumbnail may be made twice.
                "--retry=3",
                "--max-in-flight=64",
                "--plaintext",
                "--cluster-plaintext",
                "--quiet",
            ]
        )
        try:
            for count, happens in events:
                while len(os.listdir(outputs)) < count and mapping.poll() is None:
                    time.sleep(0.01)
                assert mapping.poll() is None, "the pipeline ended before everything had happened; give it more pictures"
                happens()
            status = mapping.wait()
        finally:
            mapping.kill()
        assert status == 0, "invoker map ended with status %d" % status
        made = {path.name: path.read_bytes() for path in outputs.iterdir()}
        say("%s: %d thumbnails in %.1f s" % (name, len(made), time.monotonic() - begin))
        assert len(made) == self._pictures and all(made.values())
        return made


def check(undisturbed, disturbed):
    """That nothing was lost or changed."""
    assert undisturbed == disturbed
    say("ok: every thumbnail is there, and the same as without trouble")
