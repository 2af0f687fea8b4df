"""Compiles the C and C++ examples of pages, and those in the comments of headers."""

import concurrent.futures
import os
import re
import subprocess

import blocks

_COMMENT = re.compile(r"^\s*(?://|/?\*+) ?(.*?)(?:\*/)?$")
_FLAGS = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
# Names that a header's example may use without saying where they come from.
_PRELUDE = """
#include <iostream>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "invoker/client.h"

extern std::unique_ptr<invoker::Client> client;
extern absl::StatusOr<invoker::RemoteFunction> sum;
extern std::vector<std::string> inputs;
extern std::vector<double> array;
extern size_t array_bytes;
"""


def page_examples(text):
    """(line, language, code) for each C or C++ block."""
    return [(block.line, block.language, block.text) for block in blocks.blocks(text) if block.language in ("c", "cpp")]


def header_examples(text):
    """(line, code) for each example in the comments: lines that are indented by two more spaces, after an empty line or a colon, one
    of which at least ends like C++."""
    found = []
    lines = []
    first = 0
    previous = ""
    for number, line in enumerate([*text.splitlines(), ""], 1):
        comment = _COMMENT.match(line) if re.match(r"^\s*(//|\*|/\*)", line) else None
        body = comment.group(1) if comment else ""
        if comment and body.startswith("  ") and (lines or not previous.strip() or previous.rstrip().endswith(":")):
            if not lines:
                first = number
            lines.append(body[2:])
        elif lines and not (comment and not body.strip()):
            if any(re.search(r"[;{}]\s*(//.*)?$", line) for line in lines):
                found.append((first, "\n".join(lines) + "\n"))
            lines = []
        elif lines:
            lines.append("")
        previous = body
    return found


def as_program(header, line, code):
    """A header's example as a translation unit: as it stands if it defines something, else as a function's body."""
    start = f'#include "{header}"\n{_PRELUDE}\n'
    marked = f'#line {line} "{header}"\n{code}'
    if re.search(r"^\S[^\[]*\) \{|^struct ", code, re.MULTILINE) or "#include" in code:
        return start + marked
    return start + "[[maybe_unused]] static void Example() {\n" + marked + "}\n"


def compile_one(root, name, language, code):
    """The compiler's complaints about a piece of code, with `root` for includes; "" if there are none."""
    compiler = ["gcc", "-std=c11", "-xc"] if language == "c" else ["g++", "-std=c++17", "-xc++"]
    # Examples keep results that they do not use, and leave members to their defaults.
    lenient = ["-Wno-unused-variable", "-Wno-unused-but-set-variable", "-Wno-missing-field-initializers"]
    command = [*compiler, *_FLAGS, *lenient, "-I", f"{root}/src/include", "-I", str(root), "-"]
    done = subprocess.run(command, input=code, capture_output=True, text=True, check=False)
    return f"{name} does not compile:\n{done.stderr}" if done.returncode else ""


def problems(root, examples):
    """All complaints about (name, language, code)."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [message for message in pool.map(lambda example: compile_one(root, *example), examples) if message]
