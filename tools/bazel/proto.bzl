"""C++ messages and gRPC services from a .proto file, with Debian's protoc and grpc_cpp_plugin."""

def cc_grpc_library(name, src, imports = [], deps = [], visibility = None, services = True):
    """Generates and compiles the messages and services of one .proto file.

    For `src = "bootstrap.proto"` in the package `proto`, includers write
    `#include "proto/bootstrap.pb.h"` and `#include "proto/bootstrap.grpc.pb.h"`.

    Args:
      name: the cc_library's name.
      src: the .proto file, in the calling package.
      imports: the .proto files of this repository that it imports, directly or not.
      deps: cc_grpc_library targets of imported files of this repository.
      visibility: as for cc_library.
      services: False where the file has none, so that nothing of gRPC is needed.
    """
    if not src.endswith(".proto"):
        fail("src of cc_grpc_library %s is %s: a .proto file was expected" % (name, src))
    base = src[:-len(".proto")]
    kinds = [".pb", ".grpc.pb"] if services else [".pb"]
    headers = [base + kind + ".h" for kind in kinds]
    sources = [base + kind + ".cc" for kind in kinds]
    plugin = [
        "--grpc_out=$(GENDIR)",
        "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin",
    ]

    native.genrule(
        name = name + "_generated",
        srcs = [src] + imports,
        outs = headers + sources,
        cmd = " ".join([
            "/usr/bin/protoc",
            "--proto_path=.",
            "--cpp_out=$(GENDIR)",
        ] + (plugin if services else []) + [
            "$(location %s)" % src,
        ]),
        message = "Generating C++ from",
        visibility = ["//visibility:private"],
    )
    native.cc_library(
        name = name,
        srcs = sources,
        hdrs = headers,
        # The generators' output is not written to this project's warnings.
        copts = ["-w"],
        visibility = visibility,
        deps = deps + (["//tools/bazel/system:grpc"] if services else []) + [
            "//tools/bazel/system:protobuf",
        ],
    )
