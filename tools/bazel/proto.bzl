"""C++ messages and gRPC services from a .proto file, with Debian's protoc and grpc_cpp_plugin."""

def cc_grpc_library(name, src, imports = [], deps = [], visibility = None):
    """Generates and compiles the messages and services of one .proto file.

    For `src = "bootstrap.proto"` in the package `proto`, includers write
    `#include "proto/bootstrap.pb.h"` and `#include "proto/bootstrap.grpc.pb.h"`.

    Args:
      name: the cc_library's name.
      src: the .proto file, in the calling package.
      imports: the .proto files of this repository that it imports, directly or not.
      deps: cc_grpc_library targets of imported files of this repository.
      visibility: as for cc_library.
    """
    if not src.endswith(".proto"):
        fail("src of cc_grpc_library %s is %s: a .proto file was expected" % (name, src))
    base = src[:-len(".proto")]
    headers = [base + ".pb.h", base + ".grpc.pb.h"]
    sources = [base + ".pb.cc", base + ".grpc.pb.cc"]

    native.genrule(
        name = name + "_generated",
        srcs = [src] + imports,
        outs = headers + sources,
        cmd = " ".join([
            "/usr/bin/protoc",
            "--proto_path=.",
            "--cpp_out=$(GENDIR)",
            "--grpc_out=$(GENDIR)",
            "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin",
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
        deps = deps + [
            "//tools/bazel/system:grpc",
            "//tools/bazel/system:protobuf",
        ],
    )
