"""Headers of the interface, which programs and this tree include as "invoker/NAME"."""

def public_headers(name, hdrs, **kwargs):
    """A library of headers at the root of src/invoke; layers below implement them.

    Args:
      name: the library's name.
      hdrs: its headers.
      **kwargs: passed on to cc_library.
    """
    native.cc_library(
        name = name,
        hdrs = hdrs,
        include_prefix = "invoker",
        strip_include_prefix = "/src/invoke",
        **kwargs
    )
