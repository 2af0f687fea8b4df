#!/usr/bin/python3
"""Checks protocol.pml with Spin: that no run of it breaks a rule, and that Spin finds what follows where the model does.

usage: check.py [--all] PROTOCOL TRANSITIONS [NAME...]

PROTOCOL is protocol.pml, TRANSITIONS what transitions.py made. Prints a line for each check: states stored, depth
reached, and what was found. The counterexample of a check that fails, or of one that was named, is printed step by
step. The exit code is 1 if a check did not come out as it should.
"""

import argparse
import dataclasses
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time


@dataclasses.dataclass(frozen=True)
class Check:
    """One run of Spin: the switches, and what it must find, whatever its spaces; None is nothing."""

    name: str
    switches: str
    finds: str | None = None
    large: bool = False  # only with --all: it takes minutes, and gigabytes


STUCK = "invalid end state"  # not every call has ended, or not every cell is free, and nothing happens any more


def violated(expression):
    """What Spin says of an assertion of protocol.pml, in its own words: symbols are numbers, `c` is the caller's name."""
    return f"assertion violated {expression}"


CELL_IN_USE = violated(
    "((request_cell[i]!=q)||!((((request_write[i]==2)||(request_write[i]==3))||(cancel_write[i]==2))))"
)
RUN_TWICE = violated("(ran[message]==1)")
ANSWER_OF_ANOTHER = violated("(response_memory[response_cell[c]]==(message+1))")
REQUEST_IN_NEXT_SESSION = violated("!((same_memory&&executor_live))")
RESPONSE_IN_NEXT_SESSION = violated("!((same_memory&&client_live))")
RUN_IN_NEXT_SESSION = violated("(session[message]==current)")
HALF_READ = violated("(!(request_torn[at])||(executor_state[(request_memory[at]-1)]==1))")

CHECKS = [
    # The protocol as it is.
    Check("one session", "-DSESSIONS=1 -DCALLS=2 -DDEATHS=0 -DTIMEOUTS=2 -DCANCELS=2"),
    Check("one session, the worker may die", "-DSESSIONS=1 -DCALLS=2"),
    Check("two sessions", "-DCALLS=2 -DDEATHS=0 -DCANCELS=0"),
    Check("two sessions, the worker may die", "-DCALLS=2 -DCANCELS=0 -DTIMEOUTS=0"),
    Check("two sessions, all that may happen", "-DCALLS=2", large=True),
    Check("three calls", "-DSESSIONS=1 -DCANCELS=0 -DDEATHS=0"),
    Check("three calls, two sessions", "-DCANCELS=0 -DDEATHS=0 -DTIMEOUTS=0", large=True),
    Check("three calls, three cells", "-DSESSIONS=1 -DCELLS=3 -DCANCELS=0 -DDEATHS=0", large=True),
    Check("two forged doorbells", "-DSESSIONS=1 -DCALLS=2 -DDEATHS=0 -DCANCELS=0 -DFORGED=2 -DDATA_AUTH"),
    Check(
        "two forged doorbells and a cancellation",
        "-DSESSIONS=1 -DCALLS=2 -DDEATHS=0 -DTIMEOUTS=0 -DFORGED=2 -DDATA_AUTH",
        large=True,
    ),
    # What must not be left out.
    Check("cells of a timed-out call given again", "-DSESSIONS=1 -DCALLS=2 -DREUSE_AT_TIMEOUT", CELL_IN_USE),
    Check("cells given again once a write has been posted", "-DSESSIONS=1 -DCALLS=2 -DFREE_AT_COMPLETION", CELL_IN_USE),
    Check("cells given again before a cancellation is over", "-DSESSIONS=1 -DCALLS=2 -DFREE_BEFORE_CANCEL_ENDS", CELL_IN_USE),
    Check("cancellation that clears the flag of a chain", "-DSESSIONS=1 -DCALLS=2 -DDEATHS=0 -DCANCEL_CUTS_CHAIN", STUCK),
    Check(
        "no sequence window",
        "-DSESSIONS=1 -DCALLS=2 -DDEATHS=0 -DCANCELS=0 -DFORGED=1 -DDATA_AUTH -DNO_SEQUENCE_WINDOW",
        RUN_TWICE,
    ),
    Check("a sequence window narrower than the calls", "-DSESSIONS=1 -DCALLS=2 -DDEATHS=0 -DWIDTH=1", STUCK),
    Check(
        "a response taken without its sequence number",
        "-DSESSIONS=1 -DCALLS=2 -DDEATHS=0 -DCANCELS=0 -DFORGED=1 -DDATA_AUTH -DNO_RESPONSE_MATCH",
        ANSWER_OF_ANOTHER,
    ),
    Check("memory given to the next session at once", "-DCALLS=2 -DMEMORY_AT_ONCE", REQUEST_IN_NEXT_SESSION),
    Check(
        "and no epoch in the messages",
        "-DCALLS=2 -DMEMORY_AT_ONCE -DLATE_PLACEMENT -DNO_EPOCH_CHECK -DDATA_AUTH -DDEATHS=0 -DCANCELS=0 -DTIMEOUTS=0"
        " -DNO_END_CHECK",
        RUN_IN_NEXT_SESSION,
    ),
    Check("a session's number given to the next at once", "-DCALLS=2 -DNUMBER_REUSED", HALF_READ),
    Check("responses posted after the fence", "-DCALLS=2 -DDEATHS=0 -DCANCELS=0 -DTIMEOUTS=0 -DPOST_AFTER_FENCE", RESPONSE_IN_NEXT_SESSION),
    Check("a doorbell that overtakes its write", "-DSESSIONS=1 -DCALLS=2 -DDOORBELL_FIRST", HALF_READ),
    Check("a death that nobody notices", "-DSESSIONS=1 -DCALLS=2 -DDEATH_UNNOTICED", STUCK),
    # A limit that is known: docs/design/testing.md.
    Check("a forged doorbell, and no tag over messages", "-DSESSIONS=1 -DCALLS=2 -DDEATHS=0 -DCANCELS=0 -DFORGED=1", HALF_READ),
]

# So that a check whose states do not fit ends with an error and not with the machine. Those that are not large take
# less than 300 MB.
_MEMORY_MB = 6000


@dataclasses.dataclass
class Result:
    """What Spin said of one check."""

    states: int = 0
    depth: int = 0
    found: str = ""
    complete: bool = False
    trail: str = ""


def run(check, protocol, transitions, directory):
    """Runs Spin, the compiler and the verifier for one check, in `directory`."""
    shutil.copy(protocol, directory / "protocol.pml")
    shutil.copy(transitions, directory / "transitions.pml")
    switches = check.switches.split()

    def output(*command):
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    code, text = output("/usr/bin/spin", "-a", *switches, "protocol.pml")
    if code != 0 or not (directory / "pan.c").exists():
        raise RuntimeError(f"spin -a: {text}")
    no_end = ["-DNOEND"] if "-DNO_END_CHECK" in switches else []
    code, text = output(
        "/usr/bin/gcc", "-O1", "-w", "-DSAFETY", "-DCOLLAPSE", f"-DMEMLIM={_MEMORY_MB}", "-o", "pan", "pan.c", *no_end
    )
    if code != 0:
        raise RuntimeError(f"gcc: {text}")
    # -E: states in which nothing can happen are all right.
    code, text = output("./pan", "-m1000000", *(["-E"] if no_end else []))
    result = Result()
    numbers = {name: re.search(pattern, text, re.MULTILINE) for name, pattern in _NUMBERS.items()}
    if numbers["errors"] is None:
        raise RuntimeError(f"pan ended with {code}: {text}")
    result.states = int(float(numbers["states"].group(1)))
    result.depth = int(numbers["depth"].group(1))
    found = re.search(r"pan:1: (.*?)(?: \(at depth \d+\))?$", text, re.MULTILINE)
    result.found = found.group(1) if found else ""
    result.complete = "Search not completed" not in text and "max search depth too small" not in text
    if found:
        _, result.trail = output("/usr/bin/spin", "-t", "-p", *switches, "protocol.pml")
    return result


_NUMBERS = {
    "states": r"^\s*([\d.e+]+) states, stored",
    "depth": r"depth reached (\d+)",
    "errors": r"errors: (\d+)",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("protocol", type=pathlib.Path)
    parser.add_argument("transitions", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--all", action="store_true", help="the large checks, too")
    options = parser.parse_args()
    for name in options.names:
        if name not in [check.name for check in CHECKS]:
            parser.error(f"there is no check {name!r}; there are {', '.join(repr(check.name) for check in CHECKS)}")
    failed = 0
    total = 0
    for check in CHECKS:
        if check.name not in options.names if options.names else check.large and not options.all:
            continue
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as directory:
            result = run(check, options.protocol, options.transitions, pathlib.Path(directory))
        seconds = time.monotonic() - began
        if check.finds is None:
            good = result.complete and not result.found
            total += result.states
        else:
            good = "".join(check.finds.split()) == "".join(result.found.split())
        print(
            f"{'ok' if good else 'WRONG':5} {result.states:>9} states, depth {result.depth:>3}, {seconds:5.1f} s  "
            f"{check.name}: {result.found or 'no error'}",
            flush=True,
        )
        if not good:
            print(f"      should have been: {check.finds or 'no error, in all states'}")
            failed += 1
        if result.trail and (options.names or not good):
            print(result.trail)
    print(f"{total} states of the protocol as it is; {failed} checks went wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
