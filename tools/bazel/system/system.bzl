"""A system library: headers under /usr/include, which the compiler finds by itself, and what to link."""

def system_library(name, libs, linkopts = [], deps = [], defines = []):
    """Declares a public cc_library for libraries that Debian installed.

    Args:
      name: the target's name.
      libs: library names without "lib" and ".so"; those that a binary does not use are left out of it.
      linkopts: more link options.
      deps: other targets that its headers or libraries need.
      defines: macros that its headers need.
    """
    native.cc_library(
        name = name,
        defines = defines,
        linkopts = ["-Wl,--push-state,--as-needed"] + ["-l" + lib for lib in libs] + ["-Wl,--pop-state"] + linkopts,
        visibility = ["//visibility:public"],
        deps = deps,
    )
