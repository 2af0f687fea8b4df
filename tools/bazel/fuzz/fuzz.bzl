"""libFuzzer targets: built with clang, beside everything else, which GCC builds."""

def _to_clang_impl(settings, attr):
    # All of it is set, so that a target is the same whatever is configured for the rest, sanitizers included.
    return {
        "//command_line_option:compilation_mode": "opt",
        "//command_line_option:compiler": "clang",
        "//command_line_option:copt": [
            "-w",
            "-O1",
            "-gline-tables-only",
            "-UNDEBUG",
            "-fsanitize=fuzzer-no-link,address,undefined",
            "-fno-sanitize=vptr",
            "-fno-sanitize-recover=all",
        ],
        "//command_line_option:crosstool_top": "//tools/bazel/fuzz:clang",
        "//command_line_option:cxxopt": ["-std=c++17"],
        "//command_line_option:linkopt": ["-fsanitize=address,undefined"],
        "//command_line_option:strip": "never",
    }

_to_clang = transition(
    implementation = _to_clang_impl,
    inputs = [],
    outputs = [
        "//command_line_option:compilation_mode",
        "//command_line_option:compiler",
        "//command_line_option:copt",
        "//command_line_option:crosstool_top",
        "//command_line_option:cxxopt",
        "//command_line_option:linkopt",
        "//command_line_option:strip",
    ],
)

def _clang_binary_impl(ctx):
    binary = ctx.attr.binary[0][DefaultInfo]
    ctx.actions.symlink(
        output = ctx.outputs.executable,
        target_file = binary.files_to_run.executable,
        is_executable = True,
    )
    return [DefaultInfo(runfiles = binary.default_runfiles)]

_clang_binary = rule(
    implementation = _clang_binary_impl,
    attrs = {
        "binary": attr.label(cfg = _to_clang, executable = True, mandatory = True),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
    executable = True,
)

def fuzz_test(name, srcs, deps, runs, data = [], env = {}, max_length = 4096, options = [], **kwargs):
    """A libFuzzer target with its corpus, and a test that runs it for a short time.

    `<name>` is the test: every input of the corpus, then `runs` new ones from a fixed seed. `<name>_fuzzer` is
    the libFuzzer program, for tools/fuzz.

    Args:
      name: the target's name; corpus/<name> is its corpus.
      srcs: its sources, which define LLVMFuzzerTestOneInput.
      deps: what it fuzzes.
      runs: how many inputs the test makes, at most; it ends after a minute in any case.
      data: what it needs at run time.
      env: more environment variables; locations in them are expanded.
      max_length: the longest input, in bytes.
      options: more options for libFuzzer.
      **kwargs: passed on to sh_test.
    """
    native.cc_binary(
        name = name + "_program",
        testonly = True,
        srcs = srcs,
        linkopts = ["-fsanitize=fuzzer"],
        # Only clang can build it.
        tags = ["manual"],
        visibility = ["//visibility:private"],
        deps = deps,
    )
    _clang_binary(
        name = name + "_fuzzer",
        testonly = True,
        binary = ":" + name + "_program",
        tags = ["no_sanitizer"],
        visibility = ["//visibility:private"],
    )
    corpus = native.glob(["corpus/%s/*" % name])
    native.sh_test(
        name = name,
        srcs = ["//tools/bazel/fuzz:run_fuzz.sh"],
        args = [
            "$(rootpath :%s_fuzzer)" % name,
            "tests/fuzz/corpus/" + name,
            str(runs),
            "-max_len=%d" % max_length,
        ] + options,
        data = [":%s_fuzzer" % name] + corpus + data,
        env = env,
        tags = ["no_sanitizer"],
        **kwargs
    )
