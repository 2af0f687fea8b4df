"""The program that tries fabrics out, where a program that serves looks for it."""

def self_test_copy(name = "self_test", out = "invoker_self_test"):
    """Puts a copy of invoker_self_test beside what this package builds.

    Args:
      name: the target's name.
      out: the copy, beside the program or the extension that serves.
    """
    native.genrule(
        name = name,
        srcs = ["//tools:invoker_self_test"],
        outs = [out],
        cmd = "cp $< $@",
        executable = True,
    )
