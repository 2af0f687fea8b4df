"""The layers of the Python package, and that each rule finds what breaks it."""

import ast
import os
import pathlib

import python_imports

# The checkout itself: new files count, whatever Bazel was told of.
ROOT = pathlib.Path(os.path.realpath(python_imports.__file__)).parents[2]


def package(**sources):
    """A package of these modules; two underscores within a name stand for the dot."""
    return {name.replace("__", "."): ast.parse(source) for name, source in sources.items()}


def test_the_package_keeps_its_rules():
    modules = python_imports.sources(ROOT)
    assert len(modules) > 20 and python_imports.PUBLIC < set(modules)
    assert "\n".join(python_imports.forbidden_imports(modules)) == ""
    assert "\n".join(python_imports.import_circles(modules)) == ""
    assert "\n".join(python_imports.foreign_private_names(modules)) == ""
    assert "\n".join(python_imports.large_folders(modules)) == ""


def test_what_is_internal_imports_no_public_module_but_errors():
    for source in (
        "import invoker.client",
        "from invoker import client",
        "from invoker.client import Client",
        "def late():\n    from invoker.client import Client",
        "if TYPE_CHECKING:\n    from invoker.client import Client",
    ):
        modules = package(_calls__a=source, client="")
        assert python_imports.forbidden_imports(modules) == ["_calls.a: must not import client"], source
    assert python_imports.forbidden_imports(package(_native__a="from invoker.errors import Internal", errors="")) == []


def test_a_lower_folder_imports_no_higher_one():
    modules = package(_pickle__a="from invoker._calls import b", _calls__b="from invoker._pickle import a")
    assert python_imports.forbidden_imports(modules) == ["_pickle.a: must not import _calls.b"]


def test_a_module_without_a_place_is_a_problem():
    assert "no folder has it" in python_imports.forbidden_imports(package(helpers=""))[0]
    assert "no folder has it" in python_imports.forbidden_imports(package(_other__a=""))[0]


def test_a_circle_is_found_wherever_the_import_is():
    modules = package(
        client="from invoker.group import Group",
        group="def late():\n    from invoker import lease",
        lease="if TYPE_CHECKING:\n    import invoker.client",
    )
    assert python_imports.import_circles(modules) == ["client -> group -> lease -> client"]
    assert python_imports.import_circles(package(executor="from invoker import executor")) == []


def test_a_private_name_of_another_module_is_found():
    owner = "class Client:\n    def __init__(self):\n        self._native = 1\n    def _start(self): pass\n_MOST = 1"
    for use in ("client._start()", "client._native", "from invoker.client import _MOST"):
        found = python_imports.foreign_private_names(package(client=owner, group=use))
        assert len(found) == 1 and found[0].startswith("group:1: _") and "private to client" in found[0], use
    for use in ("client.start()", "options._replace(a=1)", "self._native = 2; self._native", "client.__doc__"):
        assert python_imports.foreign_private_names(package(client=owner, group=use)) == [], use


def test_a_large_folder_is_found():
    modules = package(**{f"_calls__m{number}": "" for number in range(python_imports.MAX_FILES + 1)})
    assert python_imports.large_folders(modules) == ["_calls: has 31 modules; 30 are allowed"]
    modules.popitem()
    assert python_imports.large_folders(modules) == []
