"""Tests run by Debian's pytest, under the Python that Debian's packages are for."""

def py_pytest(name, srcs, data = [], pythonpath = ["."], args = [], env = {}, **kwargs):
    """Runs pytest over some files.

    Under --config=asan and --config=tsan the sanitizer's runtime is loaded into Python, so extension
    modules and programs built with it are checked too.

    Args:
      name: the test's name.
      srcs: the test files, all of which pytest is given. A conftest.py beside them belongs in data.
      data: what the tests need at run time: the package, its extension module, programs.
      pythonpath: directories, from the workspace's root, where Python looks for modules.
      args: more arguments for pytest.
      env: more environment variables; locations in them are expanded.
      **kwargs: passed on to sh_test.
    """
    native.sh_test(
        name = name,
        srcs = ["//tools/bazel:run_pytest.sh"],
        args = ["$(rootpath %s)" % src for src in srcs] + args,
        data = srcs + data,
        env = dict(env, INVOKER_PYTHONPATH = ":".join(pythonpath)),
        **kwargs
    )
