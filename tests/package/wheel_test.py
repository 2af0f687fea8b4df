"""The wheel, in virtual environments without root: the package, the tools and the libraries in it."""

import os
import pathlib
import shutil
import subprocess

import packages
import pytest

PLAIN = {"PATH": "/usr/bin:/bin", "INVOKER_CONFIG": "none", "INVOKER_SERVER_CONFIG": "none"}


@pytest.fixture(name="wheel", scope="module")
def make_wheel(tmp_path_factory):
    (wheel,) = packages.make("wheel", tmp_path_factory.mktemp("wheel"))
    return wheel


@pytest.fixture(name="environment", scope="module")
def make_environment(wheel, tmp_path_factory):
    """A virtual environment with nothing but the wheel."""
    return install(wheel, tmp_path_factory.mktemp("venv"))


def install(wheel, folder, *options):
    packages.run("/usr/bin/python3", "-m", "venv", *options, folder, env=PLAIN)
    packages.run(folder / "bin/pip", "install", "--no-index", wheel, env=PLAIN)
    return folder


def test_a_leased_function_runs(environment, tmp_path):
    script = pathlib.Path(packages.__file__).parent / "use_installed.sh"
    text = script.read_text().replace("cd /tmp\n", f"cd {tmp_path}\n")
    printed = packages.run("sh", "-c", text, "use_installed.sh", environment / "bin/python", environment / "bin", env=PLAIN)
    assert "result 49 own process True" in printed


def test_libraries_have_names_of_their_own(environment):
    (libraries,) = environment.glob("lib/python3*/site-packages/invoker.libs")
    own = {path.name for path in libraries.iterdir()}
    files = [*libraries.iterdir(), *environment.glob("bin/invoker*"), *environment.glob("lib/python3*/site-packages/invoker/_native/_invoker.so")]
    assert len(files) > 10
    for file in files:
        for name in packages.run("patchelf", "--print-needed", file).split():
            common = ("libc.", "libm.", "libgcc_s.", "libstdc++.", "ld-linux", "libdl.", "libpthread.", "librt.")
            assert name in own or name.startswith(common), (file, name)


@pytest.mark.parametrize("first, second", [("grpc", "invoker"), ("invoker", "grpc"), ("numpy", "invoker"), ("invoker", "numpy")])
def test_it_works_beside_other_packages(wheel, tmp_path, first, second):
    environment = install(wheel, tmp_path / "venv", "--system-site-packages")
    program = tmp_path / "both.py"
    program.write_text(
        f"""
import {first}
import {second}
import grpc
import invoker
from concurrent import futures

echo = grpc.method_handlers_generic_handler("test.Echo", {{"Echo": grpc.unary_unary_rpc_method_handler(lambda request, context: request)}})
server = grpc.server(futures.ThreadPoolExecutor(1), handlers=[echo])
port = server.add_insecure_port("127.0.0.1:0")
server.start()

def call_grpc():
    with grpc.insecure_channel(f"127.0.0.1:{{port}}") as channel:
        return channel.unary_unary("/test.Echo/Echo")(b"grpc", timeout=60)

assert call_grpc() == b"grpc"
with invoker.serve({{"echo": lambda data: bytes(data)}}, listen="127.0.0.1:0", peer_timeout=20) as worker:
    with invoker.connect(worker.address, peer_timeout=20) as client:
        assert bytes(client.call("echo", b"invoker")) == b"invoker"
        assert call_grpc() == b"grpc"
try:
    invoker.connect("127.0.0.1:1")
except invoker.InvokerError as error:
    assert "127.0.0.1:1" in str(error)
server.stop(None)
print("done")
"""
    )
    assert packages.run(environment / "bin/python", program, env=PLAIN) == "done\n"


def libfabric_of(environment, **variables):
    """What `invoker doctor` says of the libfabric in use."""
    done = subprocess.run(
        [environment / "bin/invoker", "doctor", "--json"],
        env={**PLAIN, "FI_PROVIDER": "tcp", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout.split('"subject": "release"', maxsplit=1)[0]


def test_libfabric_can_be_chosen(environment, tmp_path):
    assert "2.1 from" in libfabric_of(environment, INVOKER_LIBFABRIC="bundled")
    assert "libfabric-bundled" in libfabric_of(environment, INVOKER_LIBFABRIC="bundled")
    missing = libfabric_of(environment, INVOKER_LIBFABRIC="/nonexistent/libfabric.so.1")
    assert "cannot load libfabric: /nonexistent/libfabric.so.1" in missing
    assert "none is loaded" in missing
    system = os.path.realpath("/usr/lib/x86_64-linux-gnu/libfabric.so.1")
    for path in (system, os.path.dirname(system)):
        assert f" from {system} (INVOKER_LIBFABRIC is {path})" in libfabric_of(environment, INVOKER_LIBFABRIC=path)
    # A newer one is taken, an older one is not.
    for number, taken in (("9999.0", True), ("1.0", False)):
        library = tmp_path / f"libfabric.so.1.{number}"
        shutil.copy(system, library)
        (tmp_path / "libfabric.so.1").unlink(missing_ok=True)
        (tmp_path / "libfabric.so.1").symlink_to(library)
        shown = libfabric_of(environment, LD_LIBRARY_PATH=str(tmp_path))
        assert (f" from {library} (newer than the wheel's own)" in shown) == taken, shown
        assert ("libfabric-bundled" not in shown) == taken, shown


def test_removing_it_leaves_nothing(wheel, tmp_path):
    environment = tmp_path / "venv"
    packages.run("/usr/bin/python3", "-m", "venv", environment, env=PLAIN)
    before = sorted(environment.rglob("*"))
    packages.run(environment / "bin/pip", "install", "--no-index", "--no-compile", wheel, env=PLAIN)
    assert sorted(environment.rglob("*")) != before
    packages.run(environment / "bin/pip", "uninstall", "--yes", "invoker", env=PLAIN)
    left = [path for path in environment.rglob("*") if path not in before and "__pycache__" not in path.parts and path.is_file()]
    assert left == []
