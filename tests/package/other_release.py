#!/usr/bin/python3
"""Tests packages for another release of Debian, on a minimal machine of that release below a folder.

usage: tests/package/other_release.py CODENAME [TARGET...]

Clones this checkout there, installs what the build needs, builds, and runs tests/package (or other targets) with its tools/test. Only what is
committed counts. Needs root, some gigabytes in TMPDIR and a quarter of an hour. The last line is that of tools/test.
"""

import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import packages  # noqa: E402  pylint: disable=wrong-import-position

TARGETS = ["//tests/package/...", "//tests/server/...", "//tests/style:public_headers_test"]


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    if os.geteuid() != 0:
        sys.exit("tests/package/other_release.py: only root can make a machine below a folder")
    targets = " ".join(sys.argv[2:] or TARGETS)
    with tempfile.TemporaryDirectory() as folder, packages.Machine(pathlib.Path(folder) / "machine", sys.argv[1]) as there:
        packages.run("git", "clone", "--quiet", packages.CHECKOUT, there.root / "checkout")
        there.run("apt-get --quiet=2 update; apt-get --quiet=2 --yes --no-install-recommends install git ca-certificates")
        print(
            there.run(
                "git config --global --add safe.directory /checkout; cd /checkout; "
                # What has failed is in the last line.
                f"tools/test {targets} >/result 2>&1 || true; bazel shutdown >/dev/null 2>&1; cat /result"
            ).rstrip()
        )


if __name__ == "__main__":
    main()
