"""Python extension modules written with pybind11."""

def pybind_extension(name, srcs, copts = [], deps = [], **kwargs):
    """Builds `<name>.so`, which Python imports as `name`.

    Args:
      name: the module's name, as in PYBIND11_MODULE.
      srcs: its C++ sources.
      copts: more compiler options.
      deps: the cc_library targets that it binds.
      **kwargs: passed on to cc_binary.
    """
    native.cc_binary(
        name = name + ".so",
        srcs = srcs,
        # pybind11 declares its own types hidden, and warns of a module that is not.
        copts = ["-fvisibility=hidden"] + copts,
        linkshared = True,
        deps = deps + ["//tools/bazel/system:pybind11"],
        **kwargs
    )
