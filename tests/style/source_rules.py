#!/usr/bin/python3
"""Rules that every source file keeps: one place for provider names, and files of readable length."""

import pathlib
import re
import sys

MAX_LINES = 450

# The one file that may name providers.
PROVIDER_TABLE = "src/transport/provider/provider_profile.cc"

# Names that mean nothing but a libfabric provider, wherever they stand (a path such as /dev/shm is no
# provider).
_NAMES = (
    "tcp;ofi_rxm udp;ofi_rxd verbs;ofi_rxm ofi_rxm ofi_rxd efa efa-direct gni cxi psm2 psm3 opx ucx shm verbs"
).split()
# Names that are English words as well, so only a whole string literal counts.
_WORDS = "tcp udp net sockets".split()

_NAME = re.compile(
    r"(?<![\w/.-])(?:%s)(?![\w-])" % "|".join(re.escape(n) for n in sorted(_NAMES, key=len, reverse=True)),
    re.IGNORECASE,
)
_WORD = re.compile(r"""(["'])(?:%s)(?:;\w*)?\1""" % "|".join(_WORDS))


def provider_names(root):
    """Every line of src/ and of the C++ in tools/ that names a provider and is not the table's: "file:line: text"."""
    problems = []
    programs = [path for path in (root / "tools").rglob("*") if path.suffix in (".cc", ".h")]
    for path in sorted((root / "src").rglob("*")) + sorted(programs):
        name = path.relative_to(root).as_posix()
        if not path.is_file() or name == PROVIDER_TABLE or "__pycache__" in path.parts:
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            found = _NAME.search(line) or _WORD.search(line)
            if found:
                problems.append(
                    f"{name}:{number}: names the provider {found.group()}; only {PROVIDER_TABLE} may"
                )
    return problems


def long_files(root):
    """Every source file of src/ and tools/ that has too many lines: "file:lines: text"."""
    problems = []
    for folder in ("src", "tools"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".cc", ".h", ".py") or not path.is_file():
                continue
            lines = len(path.read_text(errors="replace").splitlines())
            if lines > MAX_LINES:
                name = path.relative_to(root).as_posix()
                problems.append(f"{name}:{lines}: has {lines} lines; {MAX_LINES} are allowed")
    return problems


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    problems = provider_names(root) + long_files(root)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
