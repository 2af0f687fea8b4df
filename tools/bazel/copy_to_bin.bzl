"""Puts source files beside what is built."""

def _copy_to_bin_impl(ctx):
    copies = []
    for source in ctx.files.srcs:
        copy = ctx.actions.declare_file(source.short_path[len(ctx.label.package) + 1:])
        ctx.actions.expand_template(template = source, output = copy, substitutions = {})
        copies.append(copy)
    files = depset(copies)
    return [DefaultInfo(files = files, runfiles = ctx.runfiles(transitive_files = files))]

# A Python package with an extension module needs both in one directory, and bazel-bin has only what was built.
copy_to_bin = rule(
    implementation = _copy_to_bin_impl,
    attrs = {"srcs": attr.label_list(allow_files = True)},
)
