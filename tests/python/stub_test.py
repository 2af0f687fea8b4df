"""The stub of the native module, by which type checkers judge, names what the module has, and nothing else."""

import ast
import pathlib

from invoker._native import _invoker


def stub():
    path = pathlib.Path(_invoker.__file__).with_name("_invoker.pyi")
    return ast.parse(path.read_text(encoding="utf-8")).body


def named(nodes):
    return {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def has(thing):
    return {name for name in vars(thing) if not name.startswith("_")}


def test_it_names_the_functions_and_classes():
    assert {name for name in named(stub()) if not name.startswith("_")} == has(_invoker)


def test_it_names_the_members_of_each_class():
    for node in stub():
        if isinstance(node, ast.ClassDef):
            members = {name for name in named(node.body) if not name.startswith("_")}
            assert members == has(getattr(_invoker, node.name)), node.name
