"""Packages on minimal machines without a compiler: install, use, upgrade, remove and purge."""

import os
import pathlib
import shutil
import subprocess
import time

import packages
import pytest

USE = pathlib.Path(packages.__file__).parent / "use_installed.sh"
USED = "result 49 own process True"
APT = "apt-get --quiet=2 --yes --no-install-recommends"


@pytest.fixture(autouse=True)
def need_root():
    if os.geteuid() != 0:
        pytest.skip("only root can make a machine below a folder; run this test as root")
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], check=False).returncode != 0:
        pytest.skip("this container may not mount anything (CAP_SYS_ADMIN), so no machine can be made below a folder")


def machine(folder):
    return packages.Machine(folder, packages.release())


def test_packages_for_debian(tmp_path):
    debs = packages.make("deb", tmp_path / "debs")
    assert {deb.name.split("_")[0] for deb in debs} == {"libinvoker0", "libinvoker-dev", "invoker-server", "invoker-tools", "python3-invoker"}
    found = packages.run("lintian", "--allow-root", "--fail-on=error", *debs)
    assert [line for line in found.splitlines() if line.startswith(("E:", "W:"))] == []
    newer = [packages.newer(deb, tmp_path) for deb in debs]
    with machine(tmp_path / "machine") as there:
        there.run(f"{APT} update")
        # Machines have one, and Debian 13 makes one where it is missing.
        there.run("test -e /etc/hosts || echo '127.0.0.1 localhost' >/etc/hosts")
        before = there.files()
        packages_before = there.installed()
        there.bring(*debs, *newer, USE)
        old = " ".join(f"/packages/{deb.name}" for deb in debs)
        there.run(f"{APT} --download-only install {old}")
        start = time.monotonic()
        there.run(f"{APT} install {old}")
        assert USED in there.run("sh /packages/use_installed.sh /usr/bin/python3")
        print(f"packages installed and called in {time.monotonic() - start:.1f} s")
        assert there.run("ls /usr/bin/*g++* 2>/dev/null || true") == "", "the machine was to have no compiler"
        assert "invoker" in there.run("getent passwd invoker")
        assert "can be used" in there.run("invoker_server --check-config")
        # What the administrator has written stays.
        there.run("echo 'executors = 2' >>/etc/invoker/server.conf")
        there.run(f"{APT} install {' '.join(f'/packages/{deb.name}' for deb in newer)}")
        assert "executors = 2" in there.run("cat /etc/invoker/server.conf")
        assert USED in there.run("sh /packages/use_installed.sh /usr/bin/python3")
        names = " ".join(deb.name.split("_")[0] for deb in debs)
        there.run(f"{APT} remove {names}")
        assert "executors = 2" in there.run("cat /etc/invoker/server.conf")
        there.run(f"dpkg --purge {names}; {APT} --purge autoremove")
        # What others need and apt keeps all the same: adduser, which libibverbs1 brings and apt suggests.
        kept = there.installed() - packages_before
        assert not kept & set(names.split())
        if kept:
            there.run(f"{APT} purge {' '.join(sorted(kept))}")
        # The group is of Debian's RDMA packages, which leave it.
        assert [each for each in sorted(there.files() - before) if not each.startswith("group: rdma:")] == []
        assert sorted(before - there.files()) == []


def test_the_development_package_builds_programs(tmp_path):
    debs = [deb for deb in packages.make("deb", tmp_path / "debs") if deb.name.startswith("libinvoker")]
    with machine(tmp_path / "machine") as there:
        there.bring(*debs)
        there.run(f"{APT} update; {APT} install {' '.join(f'/packages/{deb.name}' for deb in debs)} g++ make cmake pkg-config")
        shutil.copytree(packages.CHECKOUT / "examples/consumer", there.root / "packages/consumer")
        printed = there.run(
            "cd /packages/consumer; make; cmake -B build; cmake --build build; "
            "for at in . build; do "
            "mkfifo in out; $at/worker <in >out & exec 3>in; read -r address <out; $at/client $address hello; exec 3>&-; wait; rm in out; "
            "done"
        )
        assert printed.count("olleh") == 2, printed


def test_the_wheel(tmp_path):
    (wheel,) = packages.make("wheel", tmp_path / "wheel")
    with machine(tmp_path / "machine") as there:
        there.run(f"{APT} update; {APT} install python3-venv adduser; adduser --quiet --disabled-password --gecos '' user")
        there.bring(wheel, USE)
        start = time.monotonic()
        script = f"python3 -m venv ~/v && ~/v/bin/pip install --quiet --no-index /packages/{wheel.name} && sh /packages/use_installed.sh ~/v/bin/python ~/v/bin"
        assert USED in there.run(f"su user -c '{script}'")
        print(f"wheel installed and called in {time.monotonic() - start:.1f} s")
