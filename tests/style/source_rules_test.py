"""The tree keeps the rules of source_rules.py, and the rules can be broken."""

import os
import pathlib

import pytest
import source_rules

# The checkout itself, not Bazel's copy of what it was told of: new files count too.
ROOT = pathlib.Path(os.path.realpath(source_rules.__file__)).parents[2]


@pytest.fixture(name="tree")
def make_tree(tmp_path):
    for folder in ("src/transport/provider", "tools"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def test_root_is_the_checkout():
    assert (ROOT / source_rules.PROVIDER_TABLE).is_file()
    assert (ROOT / "WORKSPACE").is_file()


def test_no_source_names_a_provider():
    assert "\n".join(source_rules.provider_names(ROOT)) == ""


def test_no_source_is_too_long():
    assert "\n".join(source_rules.long_files(ROOT)) == ""


def test_the_table_itself_names_providers(tree):
    (tree / "src/transport/provider/provider_profile.cc").write_text(
        (ROOT / source_rules.PROVIDER_TABLE).read_text()
    )
    assert source_rules.provider_names(tree) == []
    (tree / "src/transport/provider/provider_profile.cc").rename(tree / "src/transport/other.cc")
    assert len(source_rules.provider_names(tree)) >= 2


@pytest.mark.parametrize(
    "line",
    [
        'if (provider == "tcp;ofi_rxm") {',
        'return name == "shm";',
        "// Works around what EFA does.",
        "#include <rdma/fi_ext_gni.h>  // GNI",
        'provider = "tcp"',
        "provider in ('sockets', 'x')",
        "// verbs wants a descriptor",
        "x = 'net;ofi_rxm'",
    ],
)
def test_a_provider_name_is_found_with_its_line(tree, line):
    (tree / "src/transport/bad.cc").write_text(f"int a;\n{line}\nint b;\n")
    problems = source_rules.provider_names(tree)
    assert len(problems) == 1
    assert problems[0].startswith("src/transport/bad.cc:2: ")


def test_the_programs_name_no_provider_either(tree):
    (tree / "tools/bad.cc").write_text('if (provider == "shm") {}\n')
    assert len(source_rules.provider_names(tree)) == 1


@pytest.mark.parametrize(
    "line",
    [
        'stat("/dev/shm", &mount);',
        "// Opens a TCP connection; sockets are closed.",
        '#include <infiniband/verbs.h>  // "network"',
        "int ibverbs, shmem, net = 0;",
        "// What the default means is the net effect.",
    ],
)
def test_other_words_are_no_provider_names(tree, line):
    (tree / "src/transport/good.cc").write_text(line + "\n")
    assert source_rules.provider_names(tree) == []


@pytest.mark.parametrize("name", ["src/transport/long.cc", "src/long.h", "tools/long.py"])
def test_a_long_file_is_found(tree, name):
    path = tree / name
    path.write_text("x\n" * source_rules.MAX_LINES)
    assert source_rules.long_files(tree) == []
    path.write_text("x\n" * (source_rules.MAX_LINES + 1))
    assert source_rules.long_files(tree) == [f"{name}:451: has 451 lines; 450 are allowed"]
