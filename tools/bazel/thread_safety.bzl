"""Clang's thread-safety analysis of C++ targets and all that they depend on in src/."""

_Reports = provider(
    doc = "What the analysis says.",
    fields = {"files": "depset of one file for each source: clang's messages, empty if there are none"},
)

def _flags(context, ctx):
    roots = [".", ctx.bin_dir.path]
    flags = ["-iquote%s" % root for root in roots + context.quote_includes.to_list()]
    flags += ["-I%s" % include for include in context.includes.to_list()]
    flags += ["-isystem%s" % include for include in context.system_includes.to_list()]
    flags += ["-D%s" % define for define in context.defines.to_list()]
    return flags

def _aspect_impl(target, ctx):
    deps = getattr(ctx.rule.attr, "deps", [])
    if hasattr(ctx.rule.attr, "actual"):
        deps = [ctx.rule.attr.actual]
    below = [dep[_Reports].files for dep in deps + getattr(ctx.rule.attr, "srcs", []) if _Reports in dep]
    reports = []
    infos = [dep[CcInfo] for dep in deps if CcInfo in dep]
    if CcInfo in target:
        infos.append(target[CcInfo])
    if infos and ctx.label.package.split("/")[0] == ctx.attr.folder:
        context = cc_common.merge_cc_infos(cc_infos = infos).compilation_context
        private_headers = target[CcInfo].compilation_context.direct_private_headers if CcInfo in target else []
        sources = [file for src in getattr(ctx.rule.attr, "srcs", []) for file in src.files.to_list()]
        for source in sources:
            if source.extension != "cc":
                continue
            report = ctx.actions.declare_file("%s.%s.thread_safety" % (target.label.name, source.basename))
            ctx.actions.run_shell(
                outputs = [report],
                inputs = depset(
                    sources + private_headers,
                    transitive = [context.headers],
                ),
                # The test reads the report, so that it can show all of them.
                command = "report=$1; shift; \"$@\" 2>\"$report\" || true",
                arguments = [
                    report.path,
                    "/usr/bin/clang++",
                    "-std=c++17",
                    "-fsyntax-only",
                    "-Wno-everything",
                    "-Wthread-safety",
                ] + _flags(context, ctx) + [source.path],
                mnemonic = "ThreadSafety",
                progress_message = "Analysing the locks of %s" % source.short_path,
            )
            reports.append(report)
    return [_Reports(files = depset(reports, transitive = below))]

_analysis = aspect(
    implementation = _aspect_impl,
    attr_aspects = ["actual", "deps", "srcs"],
    attrs = {"folder": attr.string(values = ["src", "tests"])},
)

def _test_impl(ctx):
    reports = depset(transitive = [target[_Reports].files for target in ctx.attr.targets])
    list_file = ctx.actions.declare_file(ctx.label.name + ".reports")
    ctx.actions.write(list_file, "".join([file.short_path + "\n" for file in reports.to_list()]))
    ctx.actions.write(
        ctx.outputs.executable,
        "#!/bin/sh\nexec %s %s %s\n" % (
            ctx.executable._check.short_path,
            "--expect-warnings" if ctx.attr.expect_warnings else "--expect-none",
            list_file.short_path,
        ),
        is_executable = True,
    )
    runfiles = ctx.runfiles(files = [list_file], transitive_files = reports)
    return [DefaultInfo(runfiles = runfiles.merge(ctx.attr._check[DefaultInfo].default_runfiles))]

# Fails if the analysis finds fault with a target or with what it depends on in `folder`.
thread_safety_test = rule(
    implementation = _test_impl,
    test = True,
    attrs = {
        "expect_warnings": attr.bool(doc = "The analysis has to find fault: a test of the analysis itself."),
        "folder": attr.string(default = "src", values = ["src", "tests"], doc = "The top folder to analyse."),
        "targets": attr.label_list(aspects = [_analysis]),
        "_check": attr.label(
            default = "//tools/bazel/testing:check_thread_safety",
            executable = True,
            cfg = "target",
        ),
    },
)
