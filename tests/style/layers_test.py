"""The layers of src/, and that each rule finds what breaks it."""

import os
import pathlib

import layers

# The checkout itself: new files count, whatever Bazel was told of.
ROOT = pathlib.Path(os.path.realpath(layers.__file__)).parents[2]


def test_the_tree_keeps_its_layers():
    files = layers.sources(ROOT)
    assert len(files) > 300
    assert "\n".join(layers.forbidden_includes(files)) == ""
    assert "\n".join(layers.include_circles(files)) == ""
    assert "\n".join(layers.large_folders(files)) == ""


def test_every_layer_exists():
    for folder in layers.LAYERS:
        assert (ROOT / folder).is_dir(), folder
    for header in layers.PUBLIC_HEADERS:
        assert (ROOT / "src/invoke" / header).is_file(), header


def test_a_lower_layer_must_not_include_a_higher_one():
    text = '#include <string>\n#include "src/transport/reactor/reactor.h"\n'
    assert layers.forbidden_includes({"src/transport/fabric/a.h": text}) == [
        "src/transport/fabric/a.h: src/transport/fabric must not include src/transport/reactor/reactor.h"
    ]
    assert layers.forbidden_includes({"src/transport/self_test/a.h": text}) == []


def test_the_two_sides_of_a_call_never_meet():
    for name, included in (
        ("src/invoke/executor/bulk/a.cc", "src/invoke/session/b.h"),
        ("src/invoke/executor/a.cc", "src/invoke/client.h"),
        ("src/invoke/session/a.cc", "src/invoke/executor/b.h"),
        ("src/invoke/client.h", "src/invoke/server.h"),
    ):
        assert len(layers.forbidden_includes({name: f'#include "{included}"\n'})) == 1, name


def test_a_file_without_a_layer_is_a_problem():
    assert "no layer" in layers.forbidden_includes({"src/other/a.h": ""})[0]


def test_a_public_header_includes_public_headers_only():
    for included, problems in (("src/invoke/client/lost.h", 1), ("invoker/response.h", 0)):
        found = layers.forbidden_includes({"src/invoke/client.h": f'#include "{included}"\n'})
        assert len(found) == problems, included


def test_a_circle_is_found():
    files = {
        "src/base/a.h": '#include "src/base/b.h"\n',
        "src/base/b.h": '#include "src/base/c.h"\n',
        "src/base/c.h": '#include "src/base/a.h"\n',
    }
    assert layers.include_circles(files) == ["src/base/a.h -> src/base/b.h -> src/base/c.h -> src/base/a.h"]


def test_a_large_folder_is_found():
    files = {f"src/base/{number}.h": "" for number in range(layers.MAX_FILES + 1)}
    assert layers.large_folders(files) == ["src/base: has 31 files; 30 are allowed"]
    files.popitem()
    assert layers.large_folders(files) == []
