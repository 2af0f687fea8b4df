"""docs/reference/options.md and --help of the programs say the same."""

import pathlib
import re
import subprocess

import pytest

PAGE = pathlib.Path("docs/reference/options.md")
COMMANDS = ["call", "map", "ping", "members", "functions", "status", "top", "leases", "drain", "drops", "usage", "fabrics", "doctor"]
# The lines before tables that several commands have in common.
CONNECT = "Options to connect, of every subcommand but `policy`, `members`, `up` and `pool`:"
ETCD = "Options for etcd, of `call`, `map`, `members` and `top`:"
SESSION = "Options of a session, of `call`, `map` and `ping`:"
LEASE = "Options of a lease, of `call` and `map`, all but the first only with it:"
OTHERS = "### invoker functions, status, drops, usage, fabrics, doctor, drain, policy"

_ROW = re.compile(r"^\| `(?:-\w,)?(--[a-z-]+)[^`]*`(?: *\| *([^|]*?))? *\|", re.MULTILINE)
_HELP = re.compile(r"^  (?:-\w,)?(--[a-z-]+)(?:,--[a-z-]+)*(?: (.*))?$", re.MULTILINE)


def page_table(text, heading):
    """Option -> default of the first table after a line."""
    assert heading in text, heading
    after = text.split(heading + "\n", 1)[1]
    table = re.search(r"(?:^\|.*\n)+", after, re.MULTILINE).group(0)
    return {option: default for option, default in _ROW.findall(table.replace("\\|", "/"))}


def help_options(*command):
    """Option -> default, "" without one, of a program."""
    done = subprocess.run([*command, "--help"], stdout=subprocess.PIPE, text=True, check=True)
    options = {}
    for option, rest in _HELP.findall(done.stdout.split("Options:", 1)[1]):
        default = re.match(r"\S*?=(\S+)", re.sub(r"UINT in \[[^\]]*\]|:\{[^}]*\}", "", rest))
        options[option] = default.group(1) if default else ""
    return {option: default for option, default in options.items() if option != "--help"}


@pytest.fixture(name="page", scope="module")
def read_page():
    return PAGE.read_text(encoding="utf-8")


def test_the_server(page):
    assert page_table(page, "## invoker_server") == help_options("tools/invoker_server")


@pytest.mark.parametrize(
    "command, heading", [("up", "### invoker up -- PROGRAM"), ("pool", "### invoker pool")]
)
def test_a_command_for_slurm(page, command, heading):
    assert page_table(page, heading) == help_options("tools/invoker", command)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command(page, command):
    shown = help_options("tools/invoker", command)
    described = page_table(page, CONNECT)
    if command == "members":
        described = {option: described[option] for option in ("--server", "--connect-timeout")}
    if command in ("fabrics", "doctor"):
        del described["--peer-timeout"]  # its row says so
    if command in ("call", "map", "ping"):
        described.update(page_table(page, SESSION))
    if command in ("call", "map", "members", "top"):
        described.update(dict.fromkeys(page_table(page, ETCD), ""))
    if command in ("call", "map"):
        described.update(page_table(page, LEASE))
    own = f"### invoker {command}" + (" NAME" if command in ("call", "map") else "")
    if own in page.splitlines():
        described.update(page_table(page, own))
    else:
        # A row names the commands that have its option.
        rows = page.split(OTHERS + "\n", 1)[1].splitlines()
        described.update({_ROW.match(row).group(1): "" for row in rows if _ROW.match(row) and f"`{command}`" in row})
    assert shown == described


def test_policy_has_no_options():
    for command in ("check", "hash"):
        assert help_options("tools/invoker", "policy", command) == {}
