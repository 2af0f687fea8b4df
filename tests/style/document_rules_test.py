"""The pages keep the rules of document_rules.py, and the rules can be broken."""

import os
import pathlib

import document_rules
import pytest

# The checkout itself: new files count, whatever Bazel was told of.
ROOT = pathlib.Path(os.path.realpath(document_rules.__file__)).parents[2]


@pytest.fixture(name="tree")
def make_tree(tmp_path):
    for folder in ("docs/guide", *document_rules.WORD_FOLDERS):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    (tmp_path / "README.md").write_text("# Title\n")
    return tmp_path


def test_the_guide_has_no_long_sentence():
    assert len(list((ROOT / "docs/guide").glob("*.md"))) > 8
    assert "\n".join(document_rules.long_sentences(ROOT)) == ""


def test_the_readme_is_short():
    assert document_rules.long_readme(ROOT) == []


def test_no_forbidden_word_is_said():
    assert "\n".join(document_rules.forbidden_words(ROOT)) == ""


def test_no_comment_begins_with_of_or_as():
    assert "\n".join(document_rules.comment_beginnings(ROOT)) == ""


@pytest.mark.parametrize(
    "name, text, line",
    [
        ("a.h", "int a;\n// Of a session.\n", 2),
        ("a.cc", "int a = 0;  // of a session\n", 1),
        ("a.cc", "int a = 0;  // the first\nint b = 0;  // as the first\n", 2),
        ("a.h", "// One.\n//\n// As before.\n", 3),
        ("a.proto", "  // Of each.\n", 1),
        ("a.py", "# As one.\n", 1),
        ("a.py", 'def f():\n    """As g()."""\n', 2),
        ("a.sh", "# of all\n", 1),
    ],
)
def test_a_comment_that_begins_so_is_found(tree, name, text, line):
    (tree / "tools" / name).write_text(text)
    (problem,) = document_rules.comment_beginnings(tree)
    assert problem.startswith(f"tools/{name}:{line}: begins with ")


@pytest.mark.parametrize(
    "name, text",
    [
        ("a.h", "// The end\n// of a session, as before.\n"),
        ("a.cc", "int a;  // the end\n        // of a session\n"),
        ("a.cc", 'Call("http://of.example");\n'),
        ("a.py", "# Asks for it.\n# Offers it.\n"),
    ],
)
def test_other_comments_are_not(tree, name, text):
    (tree / "tools" / name).write_text(text)
    assert document_rules.comment_beginnings(tree) == []


def test_no_link_is_dead():
    assert "\n".join(document_rules.dead_links(ROOT)) == ""


def test_a_long_sentence_is_found(tree):
    page = tree / "docs/guide/page.md"
    words = "word " * document_rules.MAX_WORDS
    page.write_text(f"# Page\n\nShort. {words.strip()}. Short.\n")
    assert document_rules.long_sentences(tree) == []
    page.write_text(f"# Page\n\nShort. {words} word. Short.\n")
    (problem,) = document_rules.long_sentences(tree)
    assert problem.startswith("docs/guide/page.md: 41 words")


def test_code_cells_and_items_stand_for_themselves(tree):
    half = ("word " * 30).strip()
    text = f"{half}\n\n- {half}\n- {half}\n\n| {half} | {half} |\n|---|---|\n\n```sh\n{half} {half}\n```\n"
    (tree / "docs/guide/page.md").write_text(text)
    assert document_rules.long_sentences(tree) == []
    (tree / "docs/guide/page.md").write_text(f"{half}\n{half}\n")
    assert len(document_rules.long_sentences(tree)) == 1


def test_a_long_readme_is_found(tree):
    (tree / "README.md").write_text("x\n" * document_rules.MAX_README_LINES)
    assert document_rules.long_readme(tree) == []
    (tree / "README.md").write_text("x\n" * (document_rules.MAX_README_LINES + 1))
    assert document_rules.long_readme(tree) == ["README.md:161: has 161 lines; 160 are allowed"]


def test_a_forbidden_word_is_found(tree):
    for name in ("README.md", "docs/guide/page.md", "tools/program.cc", "examples/run"):
        (tree / name).write_text("fine\nWho" "ever reads this\n")
    problems = document_rules.forbidden_words(tree)
    assert len(problems) == 4
    assert problems[0].startswith("README.md:2: Who")


def test_a_dead_link_is_found(tree):
    (tree / "docs/guide/other.md").write_text("# A heading, `quoted`\n")
    (tree / "docs/guide/page.md").write_text("[a](other.md#a-heading-quoted) [b](https://example.org) [c](#none) [d](no.md)\n")
    assert document_rules.dead_links(tree) == [
        "docs/guide/page.md: no such heading: #none",
        "docs/guide/page.md: no such file: no.md",
    ]
