#!/usr/bin/python3
"""Does what a page tells its reader to do: run_page.py PAGE [PROGRAM]

PROGRAM is the page's C++ program, built. Runs in a network of its own, with the addresses that the pages name, so that blocks run
as they are printed. Prints what it does. Exits with 1 at the first block that fails.
"""

import ctypes
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import blocks

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)

# What the interpreter of a page's blocks sees: one session. Programs that do not say for how long a worker may be silent would
# give it up on a machine that is busy with other tests.
_SESSION = """
import json, sys, traceback
import invoker
invoker.connect.__kwdefaults__["peer_timeout"] = 20.0
for line in sys.stdin:
    name, first, text = json.loads(line)
    try:
        exec(compile("\\n" * (first - 1) + text, name, "exec"), globals())
        error = ""
    except BaseException:
        error = traceback.format_exc()
    sys.stdout.flush()
    print(json.dumps(error), file=sys.stderr, flush=True)
"""


class Failed(Exception):
    """A block did not do what it should."""


def _die_with_the_test():
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Page:
    """A page being followed, in a directory that looks like a checkout."""

    def __init__(self, path, program, directory):
        self.path = path
        self.program = program
        self.directory = directory
        self.servers = {}  # by address, or by line
        self.session = None
        runfiles = pathlib.Path.cwd()
        self.environment = dict(
            os.environ,
            PATH=f"{runfiles}/tools:{os.environ['PATH']}",
            PYTHONPATH=f"{runfiles}/src/python",
            INVOKER=str(directory),
            INVOKER_PEER_TIMEOUT="20s",
            HOME=str(directory),
        )
        (directory / "bazel-bin").symlink_to(runfiles)
        (directory / "examples").symlink_to(runfiles / "examples")
        (directory / "src" / "include").mkdir(parents=True)
        (directory / "src" / "include" / "invoker").symlink_to(runfiles / "src" / "invoke")

    def follow(self):
        """Runs every block that is to be run; returns how many."""
        count = 0
        for block in blocks.blocks(self.path.read_text(encoding="utf-8")):
            where = f"{self.path}:{block.line}"
            if block.skip:
                print(f"{where}: skipped: {block.skip}", flush=True)
                continue
            if block.file:
                (self.directory / block.file).write_text(block.text, encoding="utf-8")
            elif block.language == "sh" and not (block.is_server or block.background):
                print(f"{where}: sh", flush=True)
                self.shell(block, where)
            elif block.is_server or block.background:
                print(f"{where}: starts a server", flush=True)
                self.start(block, where)
            elif block.language == "python":
                print(f"{where}: python", flush=True)
                self.python(block, where)
            elif block.is_program:
                print(f"{where}: program", flush=True)
                self.run_program(where)
            else:
                continue
            count += 1
        return count

    def popen(self, command, **options):
        return subprocess.Popen(
            command, cwd=self.directory, env=self.environment, preexec_fn=_die_with_the_test, **options
        )

    def shell(self, block, where):
        with tempfile.TemporaryFile() as after:
            script = f"trap 'env -0 >&{after.fileno()}' EXIT\n" + block.text
            done = self.popen(["bash", "-euc", script], stdin=subprocess.DEVNULL, pass_fds=[after.fileno()])
            if done.wait() != 0:
                raise Failed(f"{where}: exit status {done.returncode}")
            after.seek(0)
            variables = after.read().decode().split("\0")
        self.environment = dict(variable.split("=", 1) for variable in variables if "=" in variable)
        self.environment.pop("_", None)

    def start(self, block, where):
        """A block that goes on until it is told to end: its first line of output says that it is ready."""
        listen = re.search(r"--listen=(\S+)", block.text)
        key = listen.group(1) if listen else where
        if key in self.servers:
            self.stop(key)
        if block.language == "sh":
            command = ["bash", "-euc", block.text]
        else:
            command = ["/usr/bin/python3", "-c", block.text]
        # A shell does not always become the command that it runs.
        server = self.popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
        self.servers[key] = (server, where, signal.SIGTERM if block.language == "sh" else signal.SIGINT)
        if not server.stdout.readline():
            raise Failed(f"{where}: ended before it was ready, exit status {server.wait()}")

    def stop(self, key):
        server, where, number = self.servers.pop(key)
        os.killpg(server.pid, number)
        server.stdout.read()
        server.stdout.close()
        status = server.wait()
        if status not in (0, -number):
            raise Failed(f"{where}: exit status {status} at its end")

    def python(self, block, where):
        if self.session is None:
            self.session = self.popen(
                ["/usr/bin/python3", "-W", "error", "-c", _SESSION],
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        self.session.stdin.write(json.dumps([str(self.path), block.line, block.text]) + "\n")
        self.session.stdin.flush()
        # Libraries may write to the same place.
        for line in self.session.stderr:
            if line.startswith('"'):
                break
            print(line, end="", flush=True)
        else:
            raise Failed(f"{where}: the interpreter ended")
        error = json.loads(line)
        if error:
            raise Failed(f"{where}: {error}")

    def run_program(self, where):
        if not self.program:
            raise Failed(f"{where}: no rule builds this program; see PROGRAMS in tests/docs/BUILD.bazel")
        done = self.popen([self.program])
        if done.wait() != 0:
            raise Failed(f"{where}: exit status {done.returncode}")

    def close(self):
        if self.session is not None:
            self.session.stdin.close()
            print(self.session.stderr.read(), end="")
            self.session.wait()
        for key in list(self.servers):
            self.stop(key)


def main():
    path = pathlib.Path(sys.argv[1])
    program = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory() as directory:
        page = Page(path, program, pathlib.Path(directory))
        try:
            count = page.follow()
            page.close()
        except (Failed, blocks.PageError) as error:
            print(error, flush=True)
            return 1
    print(f"{path}: {count} blocks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
