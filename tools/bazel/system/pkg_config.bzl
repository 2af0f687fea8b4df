"""System libraries whose parts or paths differ between releases: pkg-config names them."""

def _ask(repository_ctx, option):
    """The words that pkg-config prints for the packages, each once."""
    command = ["pkg-config", option] + repository_ctx.attr.packages
    done = repository_ctx.execute(command)
    if done.return_code != 0:
        fail("'%s' failed (%s%s): run 'tools/setup build'" % (" ".join(command), done.stdout, done.stderr))
    return {word: True for word in done.stdout.strip().split(" ") if word}.keys()

def _pkg_config_impl(repository_ctx):
    directories = []
    for flag in _ask(repository_ctx, "--cflags-only-I"):
        directory = "include%d" % len(directories)
        repository_ctx.symlink(flag[len("-I"):], directory)
        directories.append(directory)
    libraries = _ask(repository_ctx, "--libs-only-l")
    repository_ctx.file("BUILD.bazel", """cc_library(
    name = %r,
    hdrs = glob(%r),
    includes = %r,
    linkopts = %r,
    visibility = ["//visibility:public"],
)
""" % (
        repository_ctx.name,
        [directory + "/**" for directory in directories],
        directories,
        ["-Wl,--push-state,--as-needed"] + libraries + ["-Wl,--pop-state"],
    ))

pkg_config = repository_rule(
    implementation = _pkg_config_impl,
    attrs = {
        "packages": attr.string_list(
            mandatory = True,
            doc = "What pkg-config is asked for.",
        ),
    },
    configure = True,
    doc = "A cc_library, named like the repository, for packages that pkg-config knows. Unused libraries are left out of binaries.",
    # Asked again whenever a Bazel server starts, for packages may have been upgraded.
    local = True,
)
