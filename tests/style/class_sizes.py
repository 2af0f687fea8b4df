#!/usr/bin/python3
"""How large a C++ class of src/ may be: its data members, and the .cc files that define its functions.

Reads headers and .cc files without a compiler, as tools/format leaves them. Structs without a private part are options
or messages, and may be of any size.
"""

import pathlib
import re
import sys

MAX_MEMBERS = 20
MAX_FILES = 2

# Classes that are still to be taken apart. One that has become small must leave this list.
TOO_LARGE = {"MapRun::Core"}

CLASS = re.compile(r"^\s*(class|struct)\s+(?:\w+\([^)]*\)\s+)?(?:ABSL_\w+\s+)?([A-Za-z_][\w:]*)[^;=(){]*\{")
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL)
DEFINITION = re.compile(r"^[A-Za-z_][^;{}()]*?\b((?:\w+::)+)~?\w+\s*\(", re.MULTILINE)


def plain(text):
    """The code without comments, texts and preprocessor lines, with as many lines."""
    without = COMMENT_OR_TEXT.sub(lambda match: re.sub(r"[^\n]+", " ", match.group()), text)
    return re.sub(r"^[ \t]*#.*(?:\\\n.*)*$", "", without, flags=re.MULTILINE)


def statements(body):
    """The statements of a class's body, each without what stands in braces."""
    statement, depth = [], 0
    for character in body:
        if character == "{":
            depth += 1
            statement.append("{}" if depth == 1 else "")
        elif character == "}":
            depth -= 1
            # A function's body ends the statement; an initialiser's braces are followed by a semicolon.
            text = "".join(statement).strip()
            if depth == 0 and (")" in text or re.match(r"(class|struct|enum|union)\b", text)):
                yield text
                statement = []
        elif depth == 0:
            if character == ";":
                yield "".join(statement).strip()
                statement = []
            else:
                statement.append(character)


def without_angles(text):
    while True:
        shorter = re.sub(r"<[^<>]*>", "", text)
        if shorter == text:
            return text
        text = shorter


def is_member(statement):
    """Whether a statement of a class's body declares a data member."""
    statement = re.sub(r"^\s*(?:(?:public|protected|private)\s*:\s*)+", "", statement).strip()
    if re.match(r"(using|typedef|friend|static|template|class|struct|enum|union|inline static|constexpr)\b", statement):
        # A member may name its type with the kind.
        return re.match(r"(?:class|struct|enum)\s+\w+[\s*&]+\w+(?:\s*=.*)?$", statement) is not None
    if re.search(r"\boperator\b", statement):
        return False
    statement = re.sub(r"\b(?:ABSL|INVOKER)_\w+\s*\([^()]*\)|\balignas\s*\([^()]*\)", "", statement)
    statement = re.sub(r"\s*(?:=.*|\{\})$", "", statement, flags=re.DOTALL)
    declares = re.search(r"[\w>*&\]]\s+[*&]*\w+(?:\[[^\]]*\])*$", statement.strip()) is not None
    return declares and "(" not in without_angles(statement)


def classes(text):
    """(name, is it plain data, data members) of every class that is defined in the text."""
    code = plain(text)
    lines = code.split("\n")
    offset = 0
    for line in lines:
        # The head of a class may go on in the next lines.
        head = code[offset : offset + 600]
        match = CLASS.match(head) if re.match(r"\s*(class|struct)\b", line) else None
        if match and not re.match(r"\s*enum", line):
            begin = offset + match.end()
            depth, end = 1, begin
            while depth > 0 and end < len(code):
                depth += {"{": 1, "}": -1}.get(code[end], 0)
                end += 1
            body = code[begin : end - 1]
            own = list(statements(body))
            is_plain = match.group(1) == "struct" and not re.search(r"^\s*private\s*:", body, re.MULTILINE)
            yield match.group(2), is_plain, sum(is_member(statement) for statement in own)
        offset += len(line) + 1


def files_of_classes(root):
    """class -> the .cc files beside its header's folder that define its functions."""
    files = {}
    for path in sorted(root.rglob("*.cc")):
        for match in DEFINITION.finditer(plain(path.read_text())):
            name = match.group(1).split("::")[0]
            files.setdefault((path.parent, name), set()).add(path.name)
    return files


def problems(root):
    members = {}
    for path in sorted(root.rglob("*.h")) + sorted(root.rglob("*.cc")):
        for name, is_plain, count in classes(path.read_text()):
            if not is_plain:
                members[(path.parent, name)] = max(count, members.get((path.parent, name), 0))
    large = set()
    for (folder, name), count in sorted(members.items()):
        if count > MAX_MEMBERS:
            large.add(name)
            if name not in TOO_LARGE:
                yield f"{folder}: class {name} has {count} data members, more than {MAX_MEMBERS}"
    for (folder, name), files in sorted(files_of_classes(root).items()):
        if len(files) > MAX_FILES and (folder, name) in members:
            large.add(name)
            if name not in TOO_LARGE:
                yield f"{folder}: class {name} is defined in {len(files)} files: {', '.join(sorted(files))}"
    for name in sorted(TOO_LARGE - large):
        yield f"class {name} is small enough: take it from TOO_LARGE of {pathlib.Path(__file__).name}"


def main():
    found = list(problems(pathlib.Path(__file__).resolve().parents[2] / "src"))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
