"""tools/install: a tree that can be moved and used without this checkout."""

import lzma
import os
import pathlib
import re
import subprocess
import threading

import packages
import pytest

PROGRAMS = {"invoker", "invoker_server", "invoker_executor"}


@pytest.fixture(name="tree", scope="module")
def make_tree(tmp_path_factory):
    """An installation that has been moved."""
    folder = tmp_path_factory.mktemp("install")
    packages.run(packages.CHECKOUT / "tools/install", "--no-build", f"--prefix={folder}/before")
    (folder / "before").rename(folder / "after")
    return folder / "after"


def environment(tree):
    return {"PATH": f"{tree}/bin:/usr/bin:/bin", "LD_LIBRARY_PATH": f"{tree}/lib", "INVOKER_PEER_TIMEOUT": "20s", "INVOKER_CONFIG": "none"}


def use(tree, folder):
    """Calls the worker of examples/consumer with its client."""
    with subprocess.Popen(
        [folder / "worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(tree)
    ) as worker:
        errors = []
        reader = threading.Thread(target=lambda: errors.append(worker.stderr.read()))
        reader.start()
        address = worker.stdout.readline().strip()
        try:
            assert packages.run(folder / "client", address, "hello", env=environment(tree)) == "olleh\n"
        finally:
            worker.stdin.close()
            reader.join()
    assert worker.returncode == 0, errors
    assert "ran 1 calls" in errors[0]


def load(library):
    return packages.run("/usr/bin/python3", "-c", "import ctypes, sys; print(bool(ctypes.CDLL(sys.argv[1]).invoker_get_module))", library)


def test_the_tree_has_what_users_need(tree):
    assert {path.name for path in (tree / "bin").iterdir()} == PROGRAMS
    public = {path.name for path in (packages.CHECKOUT / "src/invoke").glob("*.h")}
    assert {path.name for path in (tree / "include/invoker").iterdir()} == public
    version = packages.run("invoker", "--version", env=environment(tree)).strip()
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert packages.run("pkg-config", "--modversion", tree / "lib/pkgconfig/invoker.pc").strip() == version


def test_the_library_shows_its_interface_only(tree):
    library = tree / "lib/libinvoker.so.0"
    assert "SONAME               libinvoker.so.0" in packages.run("objdump", "-p", library)
    symbols = packages.run("nm", "-DC", "--defined-only", library).splitlines()
    shown = [line.split(" ", 2)[2] for line in symbols if line.split(" ", 2)[1] in "TWVuD"]
    assert any("invoker::Client::Connect" in each for each in shown)
    assert [each for each in shown if re.search(r"grpc|google|proto::|fid_|fi_info", each)] == []
    assert [each for each in shown if not re.match(r"(typeinfo (name )?for |vtable for )?invoker::", each)] == []


def test_the_interface_is_that_of_the_last_release(tmp_path):
    command = [packages.CHECKOUT / "tools/check_abi", "--no-build"]
    dumps = list((packages.CHECKOUT / "tests/package").glob("*.abi.xz"))
    release = packages.run("bash", "-c", '. /etc/os-release && echo "$ID$VERSION_ID"').strip()
    if not any(release in dump.name for dump in dumps):
        pytest.skip(f"nothing has been released for {release} yet")
    packages.run(*command)
    # A program that calls what is gone does not work any more.
    gone = tmp_path / "gone.abi.xz"
    text = lzma.open(packages.CHECKOUT / f"tests/package/libinvoker-{release}.abi.xz", "rt").read()
    assert "_ZN7invoker6Client4Ping" in text
    lzma.open(gone, "wt").write(text.replace("_ZN7invoker6Client4Ping", "_ZN7invoker6Client4Pong"))
    done = subprocess.run([*command, f"--dump={gone}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1 and "the interface has changed" in done.stderr, done.stdout


def test_headers_name_no_other_library(tree):
    text = "".join(path.read_text() for path in (tree / "include/invoker").iterdir())
    included = set(re.findall(r'#include [<"]([^>"]*)[>"]', text))
    assert [each for each in included if "/" in each and not each.startswith(("absl/", "invoker/"))] == []


def test_a_cmake_project_uses_it(tree, tmp_path):
    source = packages.CHECKOUT / "examples/consumer"
    packages.run("cmake", "-S", source, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={tree}")
    packages.run("cmake", "--build", tmp_path)
    assert load(tmp_path / "libfunctions.so") == "True\n"
    use(tree, tmp_path)


def test_a_makefile_uses_it(tree, tmp_path):
    for path in (packages.CHECKOUT / "examples/consumer").iterdir():
        (tmp_path / path.name).write_text(path.read_text())
    packages.run("make", "-C", tmp_path, env={**environment(tree), "PKG_CONFIG_PATH": f"{tree}/lib/pkgconfig"})
    assert load(tmp_path / "libfunctions.so") == "True\n"
    use(tree, tmp_path)


def test_other_releases_are_told_apart(tree, tmp_path):
    for wanted, found in (("0.1", True), ("0.1.0", True), ("0.2", False), ("1.0", False), ("0.0", False)):
        (tmp_path / "CMakeLists.txt").write_text(
            f"cmake_minimum_required(VERSION 3.18)\nproject(p CXX)\nfind_package(Invoker {wanted} QUIET)\nmessage(STATUS \"found=${{Invoker_FOUND}}\")\n"
        )
        printed = packages.run("cmake", "-S", tmp_path, "-B", tmp_path / wanted, f"-DCMAKE_PREFIX_PATH={tree}")
        assert f"found={1 if found else 0}" in printed, wanted


def test_manual_pages_have_every_option(tree):
    commands = re.findall(r"^  ([a-z]+) ", packages.run("invoker", "--help", env=environment(tree)).split("Subcommands:")[1], re.MULTILINE)
    assert {"call", "map", "doctor"} <= set(commands)
    pages = {f"invoker-{command}": ["invoker", command] for command in commands}
    pages.update({"invoker": ["invoker"], "invoker_server": ["invoker_server"]})
    for name, command in pages.items():
        page = packages.run("man", "--local-file", "--pager=cat", tree / f"share/man/man1/{name}.1", env={**os.environ, "MANWIDTH": "200"})
        assert re.search(rf"NAME\n +{name} - \w", page), page
        assert str(pathlib.Path.home()) not in page
        for option in re.findall(r"^ +(--[a-z-]+)", packages.run(*command, "--help", env=environment(tree)), re.MULTILINE):
            assert option in page, (name, option)


def test_bash_completes_commands_and_options(tree):
    script = f"""
        source {tree}/share/bash-completion/completions/invoker
        complete_words() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _invoker; printf '%s\\n' "${{COMPREPLY[@]}}"; }}
        complete_words invoker ca; complete_words invoker call --res; complete_words invoker_server --hot; complete_words invoker --vers
    """
    assert packages.run("bash", "-c", script, env=environment(tree)).split() == ["call", "--response-capacity", "--hot-timeout", "--version"]


def test_systemd_accepts_the_unit(tmp_path):
    packages.run(packages.CHECKOUT / "tools/install", "--no-build", f"--prefix={tmp_path}/usr")
    unit = tmp_path / "usr/lib/systemd/system/invoker_server.service"
    for line in ("Type=notify", "WatchdogSec=30", "User=invoker", "Delegate=yes", f"ExecStart={tmp_path}/usr/bin/invoker_server"):
        assert line in unit.read_text()
    assert packages.run("systemd-analyze", "verify", "--man=no", unit) == ""


def test_bad_arguments_are_named():
    for arguments, message in (
        ([], "--prefix is missing"),
        (["--prefix=relative"], "must be absolute, not 'relative'"),
        (["--prefix=/a", "--libdir=../b"], "--libdir must be a folder below the prefix"),
        (["--prefix=/a", "--python=/b"], "give one of them"),
        (["--prefx=/a"], "unknown argument: --prefx=/a"),
    ):
        done = subprocess.run([packages.CHECKOUT / "tools/install", *arguments], stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 2 and message in done.stderr, (arguments, done.stderr)


def test_everything_is_there_once(tree):
    sizes = {}
    for path in pathlib.Path(tree).rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert path.stat().st_mode & 0o444 == 0o444, path
            sizes[path] = path.stat().st_size
    assert all(size > 0 for size in sizes.values()), [path for path, size in sizes.items() if size == 0]
