"""README.md and the guide: each block that a reader may type runs."""

import os
import pathlib
import re
import subprocess

import blocks
import pytest

HERE = pathlib.Path(blocks.__file__).parent
PAGES = [pathlib.Path("README.md"), *sorted(pathlib.Path("docs/guide").glob("*.md"))]
# Page -> its C++ program, built.
PROGRAMS = dict(entry.split("=") for entry in os.environ["PROGRAMS"].split())

# Page -> what its blocks print, and how many times.
PRINTED = {
    "README.md": {r"^hello$": 1, r"^3.0$": 1, r"^192.0$": 1, r"^3$": 1},
    "docs/guide/first_call.md": {r"^hello$": 3, r"^b'hello'$": 2},
    "docs/guide/functions.md": {r"olleholleh": 1},
    "docs/guide/own_server.md": {r"^hello, world$": 1, r"^length 5$": 1, r"^ran 2 calls$": 1},
    "docs/guide/leases.md": {r"^\d+\.\d+$": 100, r"^calls .*\b100$": 1},
    "docs/guide/failures.md": {r"^executed ": 1},
}

# Runs as an ordinary user, on hosts 10.0.0.7 and 10.0.0.8, which are both here.
_NETWORK = """
ip link set lo up
ip link add net0 type veth peer name net1
ip address add 10.0.0.7/24 dev net0
ip address add 10.0.0.8/24 dev net0
ip link set net0 up
ip link set net1 up
exec unshare --user --map-user=1000 --map-group=1000 "$@"
"""
_IN_A_NETWORK = ["unshare", "--user", "--map-root-user", "--net", "bash", "-euc", _NETWORK, "bash"]


def test_there_are_pages():
    assert len(PAGES) > 10
    assert set(PROGRAMS) <= {str(page) for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_the_blocks_of_a_page_run(page):
    if subprocess.run([*_IN_A_NETWORK, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        pytest.skip("this system permits no network namespace")
    command = [*_IN_A_NETWORK, "/usr/bin/python3", str(HERE / "run_page.py"), str(page)]
    if str(page) in PROGRAMS:
        command.append(PROGRAMS[str(page)])
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    for pattern, times in PRINTED.get(str(page), {}).items():
        assert len(re.findall(pattern, done.stdout, re.MULTILINE)) == times, (pattern, done.stdout)


def follow(text, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(text)
    command = ["/usr/bin/python3", str(HERE / "run_page.py"), str(page)]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def test_a_block_that_fails_fails_its_page(tmp_path):
    for block in ("```sh\nfalse\n```\n", "```python\nassert False\n```\n", "```cpp\nint main() {}\n```\n"):
        done = follow("# Page\n\n" + block, tmp_path)
        assert done.returncode == 1, done.stdout
        assert "page.md:4: " in done.stdout
    assert follow("```sh\ninvoker_server --no-such-option\n```\n", tmp_path).returncode == 1


def test_later_blocks_see_what_earlier_ones_did(tmp_path):
    text = "```sh\nexport WORD=seen\n```\n```sh\ntest $WORD = seen\n```\n"
    text += "```python\nx = 1\n```\n```python\nassert x == 1\n```\n"
    done = follow(text, tmp_path)
    assert done.returncode == 0, done.stdout
    assert "4 blocks" in done.stdout


def test_a_block_is_run_or_marked():
    assert blocks.blocks("<!-- test: skip needs root -->\n```sh\nfalse\n```\n")[0].skip == "needs root"
    for text in (
        "```\nfalse\n```\n",
        "```perl\nfalse\n```\n",
        "```sh\nfalse\n",
        "<!-- test: skip -->\n```sh\nfalse\n```\n",
        "<!-- test: ignore this -->\n```sh\nfalse\n```\n",
        "<!-- test: skip needs root -->\nwords\n```sh\nfalse\n```\n",
    ):
        with pytest.raises(blocks.PageError):
            blocks.blocks(text)
