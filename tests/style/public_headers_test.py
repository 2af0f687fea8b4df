"""Every public header compiles alone, and examples include no other."""

import os
import pathlib
import re

import public_headers

# The group in src/invoke/BUILD.bazel, as paths from the root.
HEADERS = os.environ["PUBLIC_HEADERS"].split()
ROOT = pathlib.Path(public_headers.__file__).resolve().parents[2]

_INCLUDE = re.compile(r'^#include "((?:src|invoker)/[^"]+)"', re.MULTILINE)


def test_public_headers_compile_alone():
    assert HEADERS
    assert "\n".join(public_headers.problems(ROOT, HEADERS)) == ""


def test_the_root_of_the_folder_has_public_headers_only():
    assert sorted(HEADERS) == sorted(f"src/invoke/{path.name}" for path in (ROOT / "src/invoke").glob("*.h"))


def test_examples_and_documents_include_public_headers_only():
    sources = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.cc"), *ROOT.glob("examples/**/*.h")]
    included = {(header, path.name) for path in sources for header in _INCLUDE.findall(path.read_text())}
    public = {header.replace("src/invoke/", "invoker/") for header in HEADERS}
    assert included
    assert sorted((header, name) for header, name in included if header not in public) == []


def test_public_headers_are_included_by_their_public_name():
    roots = {header for header in HEADERS if header.count("/") == 2}
    assert roots
    folders = ("bench", "examples", "src", "tests", "tools")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".cc", ".h")]
    assert [str(path) for path in sources for header in _INCLUDE.findall(path.read_text()) if header in roots] == []


def test_each_compiler_finds_a_header_that_needs_another(tmp_path):
    (tmp_path / "needy.h").write_text("inline std::string Name() { return {}; }\n")
    found = public_headers.problems(tmp_path, ["needy.h"])
    assert len(found) == len(public_headers.COMPILERS) * len(public_headers.STANDARDS)
    assert all("needy.h does not compile alone" in message for message in found)


def test_a_missing_compiler_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(public_headers, "COMPILERS", ("no-such-compiler",))
    (tmp_path / "fine.h").write_text("int f();\n")
    assert "no-such-compiler is not installed" in public_headers.problems(tmp_path, ["fine.h"])[0]
