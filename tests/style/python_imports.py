#!/usr/bin/python3
"""Which module of the Python package may import which, and which names it may use."""

import ast
import pathlib
import sys

MAX_FILES = 30

# The folders of the package: "" has the public modules. Each may import itself, errors and these.
FOLDERS = {
    "": ["_calls", "_pickle", "_native"],
    "_calls": ["_pickle", "_native"],
    "_pickle": ["_native"],
    "_native": [],
}
PUBLIC = {
    "client",
    "context",
    "errors",
    "executor",
    "function",
    "futures",
    "group",
    "joblib",
    "lease",
    "metrics",
    "reference",
    "remote_function",
    "server",
    "typed",
    "usage",
}


def sources(root):
    """Module -> syntax tree of the package, such as "_calls.dispatch"; the package itself and its folders are left out."""
    package = root / "src/python/invoker"
    paths = (path for path in package.rglob("*.py") if path.name != "__init__.py")
    return {
        ".".join(path.relative_to(package).with_suffix("").parts): ast.parse(path.read_text(encoding="utf-8"))
        for path in paths
    }


def folder_of(module):
    """The folder of a module; "" for a public one."""
    return module.rpartition(".")[0]


def imports(tree, modules):
    """The modules that a module imports anywhere: also in functions, and for type checkers only."""
    found = set()
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module] + ["%s.%s" % (node.module, alias.name) for alias in node.names]
        found.update(name[len("invoker.") :] for name in names if name.startswith("invoker."))
    return found & set(modules)


def forbidden_imports(modules):
    """Every import against the rules: "module: text"."""
    problems = []
    for module, tree in sorted(modules.items()):
        folder = folder_of(module)
        if folder not in FOLDERS or (folder == "" and module not in PUBLIC):
            problems.append(f"{module}: no folder has it; add it to PUBLIC, or put it into a folder of FOLDERS")
            continue
        for imported in sorted(imports(tree, modules)):
            if imported != "errors" and folder_of(imported) not in [folder, *FOLDERS[folder]]:
                problems.append(f"{module}: must not import {imported}")
    return problems


def import_circles(modules):
    """Every module that imports itself by way of others: "a -> b -> a". A program may import itself by its own name."""
    graph = {module: sorted(imports(tree, modules) - {module}) for module, tree in modules.items()}
    problems = []
    done = set()

    def visit(module, path):
        if module in path:
            problems.append(" -> ".join(path[path.index(module) :] + [module]))
        elif module not in done:
            for imported in graph[module]:
                visit(imported, path + [module])
            done.add(module)

    for module in sorted(graph):
        visit(module, [])
    return problems


def is_private(name):
    return name.startswith("_") and not name.endswith("__")


def private_names(tree):
    """The private names that a module defines: its own, and those of its classes and their objects."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                found.add(node.attr)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__slots__":
            found.update(ast.literal_eval(node.value))
    return {name for name in found if is_private(name)}


def foreign_private_names(modules):
    """Every private name of another module that a module uses: "module:line: text"."""
    owners = {}
    for module, tree in modules.items():
        for name in private_names(tree):
            owners.setdefault(name, set()).add(module)
    folders = {module.partition(".")[0] for module in modules} | {"_invoker"}
    problems = []
    for module, tree in sorted(modules.items()):
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.Attribute):
                names = [node.attr]
            elif isinstance(node, ast.ImportFrom):
                names = [alias.name for alias in node.names]
            for name in names:
                foreign = is_private(name) and name not in folders and module not in owners.get(name, {module})
                if foreign:
                    problems.append(f"{module}:{node.lineno}: {name} is private to {', '.join(sorted(owners[name]))}")
    return problems


def large_folders(modules):
    """Every folder with too many modules: "folder: text"."""
    counts = {}
    for module in modules:
        counts[folder_of(module)] = counts.get(folder_of(module), 0) + 1
    return [
        f"{folder or 'invoker'}: has {count} modules; {MAX_FILES} are allowed"
        for folder, count in sorted(counts.items())
        if count > MAX_FILES
    ]


def main():
    modules = sources(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    problems = (
        forbidden_imports(modules) + import_circles(modules) + foreign_private_names(modules) + large_folders(modules)
    )
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
