"""Compiles headers alone, the way a user's program may include them first."""

import concurrent.futures
import os
import subprocess

COMPILERS = ("g++", "clang++")
STANDARDS = ("c++17", "c++20")


def _compile(root, header, compiler, standard):
    """What the compiler says against a program that includes the header and nothing else; "" if nothing."""
    command = [compiler, f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", root, "-I", f"{root}/src/include", "-xc++", "-"]
    try:
        done = subprocess.run(command, input=f'#include "{header}"\n', capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return f"{compiler} is not installed: run 'tools/setup test'"
    if done.returncode == 0:
        return ""
    return f"{header} does not compile alone with {compiler} -std={standard}:\n{done.stderr}"


def problems(root, headers):
    """What every compiler says against each header (a path below `root`) by every standard."""
    jobs = [(root, h, c, s) for h in headers for c in COMPILERS for s in STANDARDS]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [message for message in pool.map(lambda job: _compile(*job), jobs) if message]
