"""What README.md and docs/guide/leases.md tell readers to type."""

import re
import subprocess

from conftest import run

README = "README.md"
EXECUTORS = "docs/guide/leases.md"


def section(path, title):
    """A section's text, up to the next one of its level."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    found = re.search(r"(?ms)^(#+) %s\n(.*?)(?=^\1 |\Z)" % re.escape(title), text)
    assert found, "%s has no section %r" % (path, title)
    return found.group(2)


def blocks(text, language):
    return re.findall(r"(?ms)^```%s\n(.*?)^```$" % language, text)


def test_the_python_session_of_the_readme_runs(server, tmp_path):
    (code,) = blocks(section(README, "Executors of your own"), "python")
    script = tmp_path / "session.py"
    script.write_text(code.replace("127.0.0.1:7000", server.address))
    done = run(str(script))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sum(re.fullmatch(r"\d+\.\d+", line) is not None for line in lines) == 100
    assert any(line.startswith("calls") and line.split()[-1] == "100" for line in lines), lines


def test_the_commands_of_the_readme_have_the_options_that_they_are_given():
    commands = " ".join(blocks(section(README, "Executors of your own"), "sh"))
    commands = commands.replace("\\\n", " ")
    for line in commands.splitlines():
        words = line.split()
        if not words or words[0] == "export":
            continue
        program = words[0].replace("bazel-bin/", "")
        subcommand = [word for word in words[1:2] if not word.startswith("-")]
        text = help_of(program, *subcommand)
        for option in re.findall(r"--[a-z_]+", line):
            assert option in text, (option, program)


def test_the_executors_page_has_every_option_of_leases_and_no_other():
    text = section(EXECUTORS, "The server's options")
    documented = set(re.findall(r"(?m)^\| `(--[a-z_]+)", text))
    assert documented
    known = set(re.findall(r"--[a-z_]+", help_of("tools/invoker_server")))
    assert documented <= known
    general = set(re.findall(r"`(--[a-z_]+)`", section(EXECUTORS, "The server's options").split("\n\n")[-1]))
    assert known - documented - general == {"--help"}, "not on the page"


def help_of(program, *subcommand):
    done = subprocess.run([program, *subcommand, "--help"], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0
    return done.stdout
