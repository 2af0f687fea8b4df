"""The code blocks of a page, and what comments before them say about their test."""

import dataclasses
import re

CODE = ("sh", "python", "cpp", "c")
OTHER = ("text", "ini", "textproto", "yaml", "cmake")

_FENCE = re.compile(r"^( *)```(\S*)[^`]*$")
_MARKER = re.compile(r"^ *<!-- test: (\w+) ?(.*?) *-->$")


class PageError(ValueError):
    """The page breaks a rule of its own test."""


@dataclasses.dataclass
class Block:
    """One fenced block. `line` is that of its first line of text, counted from 1."""

    language: str
    text: str
    line: int
    skip: str = ""  # the reason
    file: str = ""  # where to write it
    background: bool = False

    @property
    def is_server(self):
        return self.language == "sh" and re.search(r"^invoker_server ", self.text, re.MULTILINE) is not None

    @property
    def is_program(self):
        return self.language == "cpp" and re.search(r"^int main\(", self.text, re.MULTILINE) is not None


def blocks(text):
    """All blocks of a page. PageError: a block without a known language, or a comment that means nothing."""
    found = []
    marker = None
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        line = lines[number]
        fence = _FENCE.match(line)
        comment = _MARKER.match(line)
        if comment:
            marker = (comment.group(1), comment.group(2), number + 1)
        elif fence:
            end = number + 1
            while end < len(lines) and lines[end].strip() != "```":
                end += 1
            if end == len(lines):
                raise PageError(f"line {number + 1}: the block does not end")
            indent = len(fence.group(1))
            body = "".join(inner[indent:] + "\n" for inner in lines[number + 1 : end])
            found.append(_block(fence.group(2), body, number + 2, marker))
            marker = None
            number = end
        elif line.strip() and marker:
            raise PageError(f"line {marker[2]}: no block follows this comment")
        number += 1
    if marker:
        raise PageError(f"line {marker[2]}: no block follows this comment")
    return found


def _block(language, text, line, marker):
    if language not in CODE + OTHER:
        raise PageError(f"line {line - 1}: the block's language is {language!r}; known are {', '.join(CODE + OTHER)}")
    block = Block(language, text, line)
    if marker:
        kind, argument, _ = marker
        if kind not in ("skip", "file", "background"):
            raise PageError(f"line {line - 2}: no such comment: {kind}")
        if (kind == "background") == bool(argument):
            raise PageError(f"line {line - 2}: {kind} takes {'nothing' if kind == 'background' else 'a word'} behind it")
        setattr(block, kind, argument or True)
    return block
