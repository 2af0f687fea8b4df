#!/usr/bin/python3
"""Which folder of src/ may include which, and how large a folder may be.

A folder may include itself, the folders that are listed for it and all that these may include. Public headers
include nothing of src/ but one another.
"""

import pathlib
import re
import sys

MAX_FILES = 30

# The public headers with values and constants only. Every folder may include them.
INTERFACE = "src/invoke"

# Folders that may be included in addition to those that a listed one may include.
LAYERS = {
    INTERFACE: [],
    "src/base": [],
    "src/log": ["src/base"],
    "src/security": ["src/log"],
    "src/transport/base": ["src/base"],
    "src/transport/provider": ["src/transport/base"],
    "src/transport/discovery": ["src/transport/provider"],
    "src/transport/spin_escape": ["src/transport/base"],
    "src/transport/fabric": ["src/transport/discovery", "src/transport/spin_escape"],
    "src/transport/operations": ["src/transport/fabric"],
    "src/transport/reactor": ["src/transport/operations"],
    "src/transport/self_test": ["src/transport/reactor"],
    "src/bootstrap/messages": ["src/transport/provider"],
    "src/bootstrap/conversion": ["src/bootstrap/messages"],
    "src/bootstrap/lease": ["src/bootstrap/messages"],
    "src/bootstrap/service": ["src/bootstrap/conversion", "src/bootstrap/lease", "src/security"],
    "src/bootstrap/client": ["src/bootstrap/conversion", "src/security"],
    "src/cluster": ["src/bootstrap/messages", "src/security"],
    "src/launch": ["src/cluster", "src/transport/self_test"],
    "src/code": ["src/bootstrap/client", "src/bootstrap/service"],
    "src/invoke/wire": ["src/bootstrap/messages", "src/security", "src/transport/reactor"],
    "src/invoke/fabrics": ["src/bootstrap/messages", "src/transport/self_test"],
    "src/invoke/function": [],
    "src/invoke/executor": ["src/invoke/wire", "src/invoke/function", "src/transport/self_test"],
    "src/invoke/worker": ["src/invoke/executor", "src/invoke/fabrics"],
    "src/invoke/session": ["src/invoke/wire", "src/transport/self_test"],
    "src/invoke/session/driver": ["src/invoke/session"],
    "src/invoke/connect": ["src/invoke/session/driver", "src/invoke/fabrics", "src/bootstrap/client"],
    "src/invoke/client": ["src/invoke/connect", "src/code"],
    "src/invoke/group": ["src/invoke/client", "src/cluster"],
    "src/accounting": ["src/bootstrap/client", "src/bootstrap/service", "src/invoke/worker"],
    "src/isolation/limits": ["src/base"],
    "src/isolation/sandbox": ["src/base"],
    "src/isolation/process": ["src/isolation/limits", "src/bootstrap/conversion", "src/invoke/worker"],
    "src/isolation/spawner": ["src/isolation/process", "src/isolation/sandbox", "src/log"],
    "src/lease": ["src/accounting", "src/isolation/spawner"],
    "src/server": ["src/cluster", "src/invoke/worker", "src/status"],
    "src/status": ["src/bootstrap/service", "src/invoke/connect"],
    "src/python/native": ["src/server", "src/invoke/group", "src/isolation/process"],
}

# A subfolder without a line above belongs to the layer of the folder that contains it. Public headers with
# behaviour belong to the layers that implement them.
PUBLIC_HEADERS = {
    "client.h": "src/invoke/client",
    "client_group.h": "src/invoke/group",
    "lease.h": "src/invoke/client",
    "log.h": "src/log",
    "map_run.h": "src/invoke/group",
    "metrics.h": "src/status",
    "registered_window.h": "src/invoke/client",
    "server.h": "src/server",
}

_INCLUDE = re.compile(r'^#include "((?:src|invoker)/[^"]+)"', re.MULTILINE)


def includes(text):
    """The files of the tree that a file includes. Public headers are included as "invoker/client.h"."""
    return [re.sub("^invoker/", "src/invoke/", name) for name in _INCLUDE.findall(text)]


def layer_of(name):
    """The layer of a file, such as "src/base"; None if no line covers it."""
    folder, _, file = name.rpartition("/")
    if folder == INTERFACE:
        return PUBLIC_HEADERS.get(file, INTERFACE)
    while folder not in LAYERS:
        folder, _, last = folder.rpartition("/")
        if not last:
            return None
    return folder


def is_public(name):
    """Whether a file is installed for users."""
    return name.rpartition("/")[0] == INTERFACE


def allowed(layer):
    """All layers that `layer` may include."""
    result = {layer, INTERFACE}
    for lower in LAYERS[layer]:
        if lower not in result:
            result |= allowed(lower)
    return result


def sources(root):
    """Name -> text of every C++ file of src/."""
    paths = (path for path in (root / "src").rglob("*") if path.suffix in (".cc", ".h"))
    return {path.relative_to(root).as_posix(): path.read_text(errors="replace") for path in paths}


def forbidden_includes(files):
    """Every include against the rules: "file: text"."""
    problems = []
    for name, text in sorted(files.items()):
        layer = layer_of(name)
        if layer is None:
            problems.append(f"{name}: no layer; add the folder to LAYERS")
            continue
        may = allowed(layer)
        for included in includes(text):
            if layer_of(included) not in may:
                problems.append(f"{name}: {layer} must not include {included}")
            elif is_public(name) and not is_public(included):
                problems.append(f"{name}: a public header must not include {included}")
    return problems


def include_circles(files):
    """Every header that includes itself by way of others: "a -> b -> a"."""
    graph = {name: [i for i in includes(text) if i in files] for name, text in files.items()}
    problems = []
    done = set()

    def visit(name, path):
        if name in path:
            problems.append(" -> ".join(path[path.index(name) :] + [name]))
        elif name not in done:
            for included in graph[name]:
                visit(included, path + [name])
            done.add(name)

    for name in sorted(graph):
        visit(name, [])
    return problems


def large_folders(files):
    """Every folder with too many C++ files: "folder: text"."""
    counts = {}
    for name in files:
        folder = name.rpartition("/")[0]
        counts[folder] = counts.get(folder, 0) + 1
    return [
        f"{folder}: has {count} files; {MAX_FILES} are allowed"
        for folder, count in sorted(counts.items())
        if count > MAX_FILES
    ]


def main():
    files = sources(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    problems = forbidden_includes(files) + include_circles(files) + large_folders(files)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
