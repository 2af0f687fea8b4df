"""Makes packages of this checkout, and machines to install them on."""

import os
import pathlib
import shutil
import subprocess

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
# Written by apt and dpkg themselves, and by the tests.
_NOT_COUNTED = ("proc", "sys", "dev", "run", "tmp", "packages", "var/lib/dpkg", "var/lib/apt", "var/cache", "var/log", "etc/ld.so.cache")
# Older copies of accounts, and what Python's and systemd's packages compile or enable for themselves.
_NOT_COUNTED_NAMES = ("passwd-", "group-", "shadow-", "gshadow-", "__pycache__")


def run(*command, **options):
    """Runs a command; an AssertionError has all that it printed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def make(kind, folder, checkout=CHECKOUT):
    """The files that `tools/package KIND` makes of what Bazel has built."""
    run(checkout / "tools/package", kind, "--no-build", f"--output={folder}")
    return sorted(pathlib.Path(folder).glob("*.deb" if kind == "deb" else "*.whl"))


def newer(package, folder):
    """The same package with a later version."""
    tree = pathlib.Path(folder) / package.stem
    run("dpkg-deb", "--raw-extract", package, tree)
    control = tree / "DEBIAN/control"
    version = run("dpkg-deb", "--field", package, "Version").strip()
    control.write_text(control.read_text().replace(version, version + ".1"))
    target = pathlib.Path(folder) / package.name.replace(version, version + ".1")
    run("dpkg-deb", "--root-owner-group", "--build", tree, target)
    shutil.rmtree(tree)
    return target


def mirror():
    """Where this machine gets Debian's packages."""
    targets = run("apt-get", "indextargets", "--format", "$(ORIGIN) $(COMPONENT) $(REPO_URI)", "Created-By: Packages")
    addresses = [line.split()[2] for line in targets.splitlines() if line.startswith("Debian main ")]
    assert addresses, "apt knows no mirror of Debian: see /etc/apt/sources.list"
    return addresses[0]


def release():
    """The code name of this machine's release of Debian."""
    return run("bash", "-c", '. /etc/os-release && echo "$VERSION_CODENAME"').strip()


class Machine:
    """A minimal Debian below a folder. Needs root."""

    def __init__(self, folder, codename):
        self.root = pathlib.Path(folder)
        # It mounts /proc below the folder; one that is killed leaves no mount where others see it.
        run("unshare", "--mount", "--propagation", "private", "debootstrap", "--variant=minbase", codename, self.root, mirror())
        (self.root / "packages").mkdir()
        # Services do not run here, and nothing is to try to start them.
        policy = self.root / "usr/sbin/policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # Mounts are in a namespace that has ended; nothing of this machine's is below the folder.
        assert str(self.root) not in pathlib.Path("/proc/self/mounts").read_text()
        shutil.rmtree(self.root)

    def bring(self, *files):
        """Puts files into /packages there."""
        for file in files:
            shutil.copy(file, self.root / "packages")

    def run(self, script):
        """Runs a shell script there, with /proc, /sys and /dev; returns what it printed."""
        # Its root is a mount, so that a machine can be made in it, too.
        mounts = 'mount --bind "$0" "$0" && mount --rbind /dev "$0/dev" && mount -t proc proc "$0/proc" && mount --bind /sys "$0/sys" && exec chroot "$0" /bin/sh -euc "$1"'
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root", "LC_ALL": "C.UTF-8"}
        return run(
            "unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "sh", "-euc", mounts, self.root, script,
            env=environment,
        )

    def installed(self):
        """The names of the packages there."""
        return set(self.run("dpkg-query --show --showformat='${Package}\\n'").split())

    def files(self):
        """All files and accounts there, but for what package management itself writes."""
        found = set()
        for folder, folders, names in os.walk(self.root):
            inner = os.path.relpath(folder, self.root)
            folders[:] = [each for each in folders if os.path.normpath(f"{inner}/{each}") not in _NOT_COUNTED and each not in _NOT_COUNTED_NAMES]
            for name in [*names, *folders]:
                path = os.path.normpath(f"{inner}/{name}")
                if path not in _NOT_COUNTED and name not in _NOT_COUNTED_NAMES:
                    found.add(path)
        for account in ("passwd", "group"):
            found.update(f"{account}: {line}" for line in (self.root / "etc" / account).read_text().splitlines())
        return found
