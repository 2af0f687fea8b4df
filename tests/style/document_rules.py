#!/usr/bin/python3
"""Rules of plain English that a machine can check, for pages and comments."""

import pathlib
import re
import sys

MAX_WORDS = 40  # words in a sentence of docs/guide
MAX_README_LINES = 160

# Words that nothing says: pattern -> what to write instead. The folders are those that are clean already.
WORDS = {re.compile(r"\bwho" r"ever\b", re.IGNORECASE): "name the actor"}
WORD_FOLDERS = ("docs", "examples", "src", "tools", "bench", "proto", "tests")

PAGE_FOLDERS = ("docs", "examples", "tests")

# A sentence that begins so has no actor.
_BEGINNINGS = re.compile(r"(?:of|as)\b", re.IGNORECASE)
_SLASHES = re.compile(r"(?:^|\s)//+(?: (.*)|$)")
_HASH = re.compile(r"(?:^|\s)#(?: (.*)|$)")
_MARKS = {".cc": _SLASHES, ".h": _SLASHES, ".c": _SLASHES, ".proto": _SLASHES, ".py": _HASH, ".sh": _HASH, ".bzl": _HASH, ".bazel": _HASH}
_DOCSTRING = re.compile(r"""^\s*\"{3}(.*)""")

_SUFFIXES = (".md", ".cc", ".h", ".c", ".py", ".sh", ".bzl", ".bazel", ".proto", "")
_FENCED = re.compile(r"^( *)```.*?^ *```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_END = re.compile(r"[.!?](?=\s|$)")


def sentences(text):
    """Every sentence of a page's prose, a table's cell and an item of a list each by itself."""
    blank = lambda match: "\n\n"
    text = _COMMENT.sub(blank, _FENCED.sub(blank, text))
    parts = []
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("|"):
            parts += ["", *line.strip("|").replace("\\|", "/").split(" | "), ""]
        elif not line or line.startswith(("#", "- ", "* ", "> ")) or re.match(r"\d+\. ", line):
            parts += ["", line.lstrip("#-*> ")]
            if line.startswith("#"):
                parts.append("")
        else:
            parts[-1:] = [(parts[-1] + " " + line).strip()] if parts else [line]
    for part in parts:
        part = _LINK.sub(r"\1", _CODE.sub("code", part))
        yield from (sentence.strip() for sentence in _END.split(part) if sentence.strip())


def long_sentences(root):
    """Every sentence of the guide that has too many words: "file: text"."""
    return [
        f"{page.relative_to(root).as_posix()}: {len(sentence.split())} words; {MAX_WORDS} are allowed: {sentence}"
        for page in sorted((root / "docs/guide").glob("*.md"))
        for sentence in sentences(page.read_text(encoding="utf-8"))
        if len(sentence.split()) > MAX_WORDS
    ]


def long_readme(root):
    """A README that is too long: "file:lines: text"."""
    lines = len((root / "README.md").read_text(encoding="utf-8").splitlines())
    return [f"README.md:{lines}: has {lines} lines; {MAX_README_LINES} are allowed"] if lines > MAX_README_LINES else []


def forbidden_words(root):
    """Every line that says a word of WORDS: "file:line: text"."""
    paths = [root / "README.md"] + [path for folder in WORD_FOLDERS for path in sorted((root / folder).rglob("*"))]
    problems = []
    for path in paths:
        if not path.is_file() or path.suffix not in _SUFFIXES or "__pycache__" in path.parts:
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            for word, instead in WORDS.items():
                found = word.search(line)
                if found:
                    problems.append(f"{path.relative_to(root).as_posix()}:{number}: {found.group()}: {instead}")
    return problems


def comment_beginnings(root):
    """Every comment and docstring that begins with "Of" or "As": "file:line: text"."""
    problems = []
    for folder in WORD_FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            mark = _MARKS.get(path.suffix)
            if mark is None or not path.is_file() or "__pycache__" in path.parts:
                continue
            for number, text in _comments(path.read_text(errors="replace").splitlines(), mark):
                if _BEGINNINGS.match(text):
                    problems.append(f"{path.relative_to(root).as_posix()}:{number}: begins with {text[:2]!r}: {text}")
    return problems


def _comments(lines, mark):
    """The number and the text of each line with which a comment, a paragraph of one, or a docstring begins."""
    before = None
    for number, line in enumerate(lines, 1):
        found = mark.search(line)
        text = (found.group(1) or "") if found else ""
        place = found.start(1) if text else None
        # A line that has only a comment continues the one above it.
        alone = bool(text) and not line[: found.start()].strip()
        if text and not (alone and place == before):
            yield number, text
        before = place
        docstring = _DOCSTRING.match(line)
        if docstring:
            yield number, docstring.group(1)


def dead_links(root):
    """Every link of a page to a file or a heading that is not there: "file: text"."""
    pages = [root / "README.md", *(page for folder in PAGE_FOLDERS for page in (root / folder).rglob("*.md"))]
    problems = []
    for page in pages:
        text = _FENCED.sub("", page.read_text(encoding="utf-8"))
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, heading = target.partition("#")
            file = (page.parent / name).resolve() if name else page
            if not file.exists():
                problems.append(f"{page.relative_to(root).as_posix()}: no such file: {target}")
            elif heading and heading not in _headings(file.read_text(encoding="utf-8")):
                problems.append(f"{page.relative_to(root).as_posix()}: no such heading: {target}")
    return problems


def _headings(text):
    """The headings of a page, written as links name them."""
    titles = re.findall(r"^#+ (.*)$", _FENCED.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    problems = long_sentences(root) + long_readme(root) + forbidden_words(root)
    problems += comment_beginnings(root) + dead_links(root)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
