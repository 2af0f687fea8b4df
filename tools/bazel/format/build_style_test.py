"""Each rule of build_style finds what breaks it, and leaves alone what does not."""

import build_style
import pytest

GOOD = '''load("@rules_cc//cc:defs.bzl", "cc_library")
load("//tools/bazel:proto.bzl", "cc_grpc_library")
load(":local.bzl", "local")

package(default_visibility = ["//visibility:private"])

# A comment of the next target.
cc_library(
    name = "wire",
    srcs = [
        "a.cc",
        "b.cc",
    ],
    hdrs = ["wire.h"],
    deps = [
        ":local",
        "//src/transport:peer",
        "@python_headers//:python_headers",
    ] + select({
        "//tools/bazel:tsan": ["//x"],
        "//conditions:default": [],
    }),
)
'''


def messages(text, path="src/BUILD.bazel"):
    return " | ".join(message for _, message in build_style.check(path, text))


def test_a_well_formatted_file_has_no_problems():
    assert messages(GOOD) == ""
    assert build_style.fix("src/BUILD.bazel", GOOD) == GOOD


@pytest.mark.parametrize(
    "old, new, message",
    [
        ('"wire"', "'wire'", "single quotes"),
        ('    name = "wire"', '  name = "wire"', "indented by 2"),
        ('        "a.cc",\n', '        \t"a.cc",\n', "tab"),
        ('hdrs = ["wire.h"],', 'hdrs = ["wire.h"], ', "blanks at the end"),
        ('        "b.cc",\n', '        "b.cc"\n', "no comma after the last item"),
        ("    }),\n)", "    })\n)", "no comma after the last item"),
        ('        "a.cc",\n        "b.cc",\n', '        "b.cc",\n        "a.cc",\n', "srcs not sorted"),
        ('        "b.cc",\n', '        "b.cc",\n        "b.cc",\n', "stands twice"),
        ('        ":local",\n', '        "@z//:z",\n        ":local",\n', "deps not sorted"),
        ('["wire.h"]', '["v.h", "wire.h"]', "several hdrs on one line"),
        ('    name = "wire",\n', '    testonly = 1,\n    name = "wire",\n', "name is not the first"),
        ('"])\n\n# A', '"])\n# A', "no blank line before"),
        ('"])\n\n# A', '"])\n\n\n# A', "more than one blank line"),
        ('    }),\n)\n', '    }),\n)\n\nload("//a:b.bzl", "c")\n', "loads come first"),
        ("@rules_cc//cc:defs.bzl", ":z.bzl", "belongs before that of"),
        ("    }),\n)\n", "    }),\n)", "no newline at the end"),
        ('name = "wire",', 'name = "wire"),', "cannot be parsed"),
    ],
)
def test_each_broken_rule_is_reported(old, new, message):
    assert old in GOOD
    assert message in messages(GOOD.replace(old, new))


def test_a_comment_in_a_list_starts_a_group_sorted_by_itself():
    grouped = GOOD.replace('        "b.cc",\n', '        # generated\n        "0.cc",\n')
    assert messages(grouped) == ""


def test_fix_mends_blanks_and_order():
    bad = GOOD.replace('        "a.cc",\n        "b.cc",\n', '        "b.cc",\n        "a.cc",  \n')
    bad = bad.replace("\n\n#", "\n\n\n#") + "\n\n"
    assert build_style.fix("src/BUILD.bazel", bad) == GOOD
