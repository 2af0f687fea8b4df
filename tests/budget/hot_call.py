"""Runs hot_call under valgrind and says what a call did, by function: instructions, and what no hot call may do."""

import argparse
import collections
import dataclasses
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

PROVIDERS = ("tcp;ofi_rxm", "shm")
BUDGET = pathlib.Path(__file__).with_name("budget.json")

# A multiple of the periods of what is done now and then (every 64 turns of a reactor, say), so that every run has
# as much of it, wherever in a period it begins.
CALLS = 4096

# Not ours: the fabric, in whichever library it is. What they call does not show up, as they call nothing.
_FABRIC = re.compile(r"/(?:liblockstep|libfabric)\.so")
# The loop around the calls.
_LOOP = "::RepeatCalls("
# Where both ends take what the fabric has for them: what tells their threads from gRPC's.
_READS = "invoker::lockstep::Queue::Read("

_ALLOCATION = re.compile(
    r"^(?:operator new|operator delete|malloc|calloc|realloc|free|aligned_alloc|posix_memalign|memalign|mmap|munmap)"
    r"\b"
)
_LOCK = re.compile(
    r"^(?:pthread_(?:mutex|rwlock|spin|cond)_\w+|.*\bMutex::(?:Reader|Writer)?(?:Try)?Lock\w*\(|.*\bCondVar::\w+\()"
)
_LOOKUP = re.compile(r"_Rb_tree|\braw_hash_set|\bflat_hash_|\bnode_hash_|\bstd::_Hash|\b_Hashtable|hash_internal")
_STRING = re.compile(
    r"^(?:[^(]*\b(?:basic_string|StrCat|StrAppend|StrFormat|Cord)\b|str(?:len|cmp|ncmp|chr|cpy|ncpy|dup)\b"
    r"|snprintf|vsnprintf)"
)
_CLOCK = re.compile(r"^(?:clock_gettime|gettimeofday)\b")

_SYSCALL = re.compile(r"^SYSCALL\[\d+,(\d+)\]\(\s*\d+\)\s+(\w+)(?:\s*\(\s*(0x[0-9a-f]+)?)?")
_MARK = "sys_getsid"


class HotCallError(Exception):
    """The calls could not be counted; the message says why."""


@dataclasses.dataclass
class Thread:
    """What one thread did between the marks."""

    # By (file, function): instructions of its own.
    instructions: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    # By (source file, line), where the program has line numbers.
    lines: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    # By (caller's file, caller, called function).
    calls: collections.Counter = dataclasses.field(default_factory=collections.Counter)


@dataclasses.dataclass
class Count:
    """Counts all counted calls together."""

    calls: int
    client: Thread
    executor: Thread
    # By name, of both ends' threads.
    syscalls: collections.Counter

    @property
    def threads(self):
        return (self.client, self.executor)

    def instructions(self):
        return sum(sum(thread.instructions.values()) for thread in self.threads)

    def per_call(self):
        return self.instructions() / self.calls

    def _called(self, pattern):
        """Calls from elsewhere of functions that the pattern fits, by name."""
        found = collections.Counter()
        for thread in self.threads:
            for (_, caller, callee), number in thread.calls.items():
                if pattern.search(callee) and not pattern.search(caller):
                    found[callee] += number
        return found

    def allocations(self):
        return self._called(_ALLOCATION)

    def locks(self):
        return self._called(_LOCK)

    def lookups(self):
        return self._called(_LOOKUP)

    def strings(self):
        return self._called(_STRING)

    def clock_reads(self):
        return sum(self._called(_CLOCK).values()) / self.calls

    def forbidden(self):
        """What no hot call may do, and how often it was done: {what: {function: times}}, empty if all is well."""
        kinds = {
            "allocations": self.allocations(),
            "locks": self.locks(),
            "look-ups": self.lookups(),
            "string functions": self.strings(),
            "system calls": self.syscalls,
        }
        return {kind: dict(found) for kind, found in kinds.items() if found}


def parse_thread(lines):
    """One thread's part of callgrind's output, as callgrind writes it without compression."""
    thread = Thread()
    library = function = source = callee = ""
    skip = False
    for line in lines:
        line = line.rstrip("\n")
        if skip:
            # What a call cost inclusively: its functions have it themselves.
            skip = False
        elif line.startswith("ob="):
            library = line[3:]
        elif line.startswith(("fl=", "fi=", "fe=")):
            source = line[3:]
        elif line.startswith("fn="):
            function = line[3:]
        elif line.startswith("cfn="):
            callee = line[4:]
        elif line.startswith("calls="):
            if not _FABRIC.search(library) and _LOOP not in function:
                thread.calls[library, function, callee] += int(line[6:].split()[0])
            skip = True
        elif line[:1].isdigit() and function:
            position, cost = line.split()[:2]
            if not _FABRIC.search(library) and _LOOP not in function:
                thread.instructions[library, function] += int(cost)
                thread.lines[source, int(position)] += int(cost)
    return thread


def parse_syscalls(lines, wait_address, threads):
    """System calls of these threads between the two marks, but for the fabric's waiting."""
    marks = 0
    found = collections.Counter()
    for line in lines:
        match = _SYSCALL.match(line)
        if match is None:
            continue
        thread, name, argument = int(match[1]), match[2], match[3]
        if name == _MARK:
            marks += 1
        elif marks == 1 and thread in threads and (name, argument) != ("sys_futex", wait_address):
            found[name] += 1
    if marks != 2:
        raise HotCallError(f"valgrind's trace of system calls has {marks} marks instead of 2")
    return found


def count(binary, functions, provider, calls=CALLS, extra=()):
    """Runs the program and returns the Count of its calls."""
    with tempfile.TemporaryDirectory() as directory:
        folder = pathlib.Path(directory)
        command = [
            "/usr/bin/valgrind",
            "--tool=callgrind",
            "--instr-atstart=no",
            "--separate-threads=yes",
            # So that no thread is kept waiting by two that have much to do.
            "--fair-sched=yes",
            "--compress-strings=no",
            "--compress-pos=no",
            "--trace-syscalls=yes",
            f"--log-file={folder}/log",
            f"--callgrind-out-file={folder}/out",
            str(binary),
            f"--functions={functions}",
            f"--provider={provider}",
            f"--calls={calls}",
            *extra,
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise HotCallError(f"{error.filename} is not there: run tools/setup") from error
        if done.returncode != 0:
            raise HotCallError(f"{' '.join(command)} failed with {done.returncode}: {done.stderr.strip()}")
        told = json.loads(done.stdout)
        ends = {}
        for path in folder.glob("out-*"):
            text = path.read_text(errors="replace")
            if f"fn={_READS}" not in text:
                continue
            ends[int(path.name[len("out-") :])] = text.splitlines()
        if len(ends) != 2:
            raise HotCallError(f"{len(ends)} threads read completions while calls were counted, instead of 2")
        # The program's first thread makes the calls.
        client, executor = sorted(ends)
        with open(folder / "log", errors="replace") as log:
            syscalls = parse_syscalls(log, told["wait_address"], set(ends))
        return Count(told["calls"], parse_thread(ends[client]), parse_thread(ends[executor]), syscalls)


def budget_of(result):
    """What to write into the budget for a count: a hundredth of an instruction at most above it."""
    return {
        "instructions": math.ceil(result.per_call() * 100) / 100,
        "clock_reads": math.ceil(result.clock_reads() * 100) / 100,
    }


def table(result, most=80):
    """For people: instructions per call by function, the two ends side by side."""
    per_call = lambda number: number / result.calls
    both = sum((thread.instructions for thread in result.threads), collections.Counter())
    ends = [per_call(sum(thread.instructions.values())) for thread in result.threads]
    rows = [
        f"{sum(ends):9.2f}  instructions per call: client {ends[0]:.2f}, executor {ends[1]:.2f}",
        f"{result.clock_reads():9.2f}  readings of the clock per call",
        "",
        f"{'client':>9} {'executor':>9}  function",
    ]
    for (library, function), _ in both.most_common(most):
        client, executor = (per_call(thread.instructions[library, function]) for thread in result.threads)
        rows.append(f"{client:9.2f} {executor:9.2f}  {function[:150]}")
    for kind, found in result.forbidden().items():
        rows.append(f"{kind}, which no hot call may have:")
        rows += [f"{per_call(number):9.2f}  {name}" for name, number in found.items()]
    return "\n".join(rows)


def line_table(result, most=120):
    """For people: instructions per call by source line. Needs a program built with -g."""
    both = sum((thread.lines for thread in result.threads), collections.Counter())
    rows = [f"{'client':>9} {'executor':>9}  line"]
    for (source, line), _ in both.most_common(most):
        client, executor = (thread.lines[source, line] / result.calls for thread in result.threads)
        text = ""
        try:
            text = pathlib.Path(source).read_text(errors="replace").splitlines()[line - 1].strip()
        except (OSError, IndexError):
            pass
        place = source.removeprefix("/proc/self/cwd/").removeprefix("./")
        rows.append(f"{client:9.2f} {executor:9.2f}  {place}:{line}  {text}")
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description="Counts the instructions of ours in a hot call.")
    parser.add_argument("--binary", required=True, help="the program hot_call")
    parser.add_argument("--functions", required=True, help="a library with the function noop")
    parser.add_argument("--provider", action="append", help="default: " + ", ".join(PROVIDERS))
    parser.add_argument("--bytes", type=int, default=64, help="payload; the budget is for 64")
    parser.add_argument("--data-auth", default="off", help="tags: off, header, full; the budget is for off")
    parser.add_argument("--lines", action="store_true", help="by source line, too")
    parser.add_argument("--record", action="store_true", help="write what was counted into the budget")
    options = parser.parse_args()
    counted = {}
    for provider in options.provider or PROVIDERS:
        result = count(options.binary, options.functions, provider, extra=[f"--bytes={options.bytes}", f"--data-auth={options.data_auth}"])
        counted[provider] = budget_of(result)
        print(f"{provider}, {options.bytes} B\n{table(result)}\n")
        if options.lines:
            print(line_table(result) + "\n")
    if options.record:
        budget = json.loads(BUDGET.read_text()) if BUDGET.exists() else {}
        budget.update(counted)
        BUDGET.write_text(json.dumps(budget, indent=2) + "\n")
        print(f"recorded in {BUDGET}")


if __name__ == "__main__":
    try:
        main()
    except HotCallError as problem:
        sys.exit(f"hot_call: {problem}")
