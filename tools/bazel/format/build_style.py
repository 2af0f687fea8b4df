"""Checks Bazel files against the style that buildifier gives them, which Debian does not ship.

Starlark's grammar is near enough to Python's that Python's own parser reads these files.
"""

import ast
import io
import re
import tokenize

_SORTED_ATTRIBUTES = {"data", "deps", "hdrs", "srcs", "textual_hdrs", "visibility"}
_LABEL_GROUPS = (":", "//", "@")
_LOAD_GROUPS = ("@", "//", ":")


def is_build_file(path):
    """True for the files that this module checks."""
    name = path.rsplit("/", 1)[-1]
    return name in ("BUILD", "BUILD.bazel", "WORKSPACE") or name.endswith((".bzl", ".BUILD.bazel"))


def label_key(label):
    """buildifier's order: plain names, then ":", "//" and "@", each by its dotted parts."""
    group = next((i + 1 for i, p in enumerate(_LABEL_GROUPS) if label.startswith(p)), 0)
    return (group, re.split("[.:]", label))


def _load_key(module):
    group = next((i for i, p in enumerate(_LOAD_GROUPS) if module.startswith(p)), 0)
    return (group, module)


def _is_call_of(node, name):
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id == name
    )


def _is_string(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


class _Checker:
    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.lines = text.split("\n")
        self.name = path.rsplit("/", 1)[-1]
        self.is_bzl = self.name.endswith(".bzl")
        self.problems = []

    def report(self, line, message):
        self.problems.append((line, message))

    def check(self):
        self._check_lines()
        try:
            tree = ast.parse(self.text)
            tokens = list(tokenize.generate_tokens(io.StringIO(self.text).readline))
        except (SyntaxError, tokenize.TokenError) as error:
            self.report(getattr(error, "lineno", None) or 1, "cannot be parsed: %s" % error)
            return self._sorted()
        self._check_tokens(tokens)
        self._check_top_level(tree)
        for node in ast.walk(tree):
            self._check_trailing_comma(node)
            if isinstance(node, ast.Call):
                self._check_call(node)
        return self._sorted()

    def _sorted(self):
        return sorted(set(self.problems))

    def _check_lines(self):
        if not self.text:
            return
        if not self.text.endswith("\n"):
            self.report(len(self.lines), "no newline at the end of the file")
        elif self.text.endswith("\n\n"):
            self.report(len(self.lines) - 1, "blank line at the end of the file")
        for number, line in enumerate(self.lines, 1):
            if "\t" in line:
                self.report(number, "tab")
            if line != line.rstrip():
                self.report(number, "blanks at the end of the line")
            if not line and number > 1 and not self.lines[number - 2] and number < len(self.lines):
                self.report(number, "more than one blank line")

    def _check_tokens(self, tokens):
        seen = 0  # the last line on which a token ended: a later token there does not start the line
        for token in tokens:
            if token.type in (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
                continue
            line, column = token.start
            if line != seen and column % 4:
                self.report(line, "indented by %d: not a multiple of 4" % column)
            seen = token.end[0]
            if token.type == tokenize.STRING and re.match("[rb]*'", token.string):
                if '"' not in token.string:
                    self.report(line, "single quotes: use double quotes")

    def _check_top_level(self, tree):
        body = tree.body
        for before, after in zip(body, body[1:]):
            loads = _is_call_of(before, "load") and _is_call_of(after, "load")
            assignments = isinstance(before, ast.Assign) and isinstance(after, ast.Assign)
            gap = self.lines[before.end_lineno : after.lineno - 1]
            if not loads and not assignments and "" not in gap:
                self.report(after.lineno, "no blank line before this statement")
        if self.name == "WORKSPACE":
            return

        modules = []
        others = False
        for index, node in enumerate(body):
            if _is_call_of(node, "load"):
                if others:
                    self.report(node.lineno, "load after another statement: loads come first")
                modules.append((node.lineno, node.value.args[0].value))
            elif not (index == 0 and isinstance(node, ast.Expr) and _is_string(node.value)):
                others = True
        for (_, before), (line, after) in zip(modules, modules[1:]):
            if _load_key(after) < _load_key(before):
                self.report(line, 'load of "%s" belongs before that of "%s"' % (after, before))

    def _check_trailing_comma(self, node):
        if isinstance(node, ast.Call):
            items = node.args + [keyword.value for keyword in node.keywords]
            starred = any(keyword.arg is None for keyword in node.keywords)
            if starred or any(isinstance(i, (ast.GeneratorExp, ast.Starred)) for i in items):
                return
        elif isinstance(node, ast.List):
            items = node.elts
        elif isinstance(node, ast.Dict):
            items = node.values
        else:
            return
        line = self.lines[node.end_lineno - 1]
        closes_its_line = not line.encode()[: node.end_col_offset - 1].strip()
        if not items or not closes_its_line:
            return
        last = max(items, key=lambda item: (item.end_lineno, item.end_col_offset))
        rest = self.lines[last.end_lineno - 1].encode()[last.end_col_offset :].decode()
        following = [rest] + self.lines[last.end_lineno : node.end_lineno]
        code = "".join(re.sub("#.*", "", part) for part in following).strip(" )")
        if not code.startswith(","):
            self.report(last.end_lineno, "no comma after the last item of a list over several lines")

    def _check_call(self, call):
        names = [keyword.arg for keyword in call.keywords]
        if "name" in names and names[0] != "name":
            self.report(call.lineno, "name is not the first argument")
        if self.is_bzl:
            return
        if "name" in names and len(names) > 1 and call.lineno == call.end_lineno:
            self.report(call.lineno, "several arguments on one line: write one a line")
        for keyword in call.keywords:
            if keyword.arg in _SORTED_ATTRIBUTES:
                for node in ast.walk(keyword.value):
                    if isinstance(node, ast.List) and all(map(_is_string, node.elts)):
                        self._check_list(keyword.arg, node)

    def _check_list(self, attribute, node):
        rows = [item.lineno for item in node.elts]
        if len(rows) > 1 and len(set(rows)) < len(rows):
            self.report(node.lineno, "several %s on one line: write one a line" % attribute)
        for before, after in zip(node.elts, node.elts[1:]):
            between = self.lines[before.end_lineno : after.lineno - 1]
            if any(line.lstrip().startswith("#") for line in between):
                continue  # a comment starts a group that is sorted by itself
            if before.value == after.value:
                self.report(after.lineno, '"%s" stands twice in %s' % (after.value, attribute))
            elif label_key(after.value) < label_key(before.value):
                self.report(
                    after.lineno,
                    '%s not sorted: "%s" belongs before "%s"' % (attribute, after.value, before.value),
                )


def check(path, text):
    """Returns what is wrong with a file, as a sorted list of (line, message)."""
    return _Checker(path, text).check()


def _sort_lists(path, text):
    if path.endswith(".bzl"):
        return text
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return text
    lines = text.split("\n")
    for keyword in (node for node in ast.walk(tree) if isinstance(node, ast.keyword)):
        if keyword.arg not in _SORTED_ATTRIBUTES:
            continue
        for node in (n for n in ast.walk(keyword.value) if isinstance(n, ast.List)):
            rows = [item.lineno for item in node.elts]
            plain = all(map(_is_string, node.elts)) and len(set(rows)) == len(rows)
            # Only a list with one item on each of its lines, and nothing else there, can be sorted by lines.
            if not plain or node.end_lineno - node.lineno != len(rows) + 1:
                continue
            if any(not re.fullmatch(r'\s*"[^"#]*",?', lines[row - 1]) for row in rows):
                continue
            indent = re.match(r"\s*", lines[rows[0] - 1]).group()
            labels = sorted({item.value for item in node.elts}, key=label_key)
            fixed = ['%s"%s",' % (indent, label) for label in labels]
            # Keeps the number of lines, so that the other lists' line numbers still hold.
            lines[rows[0] - 1 : rows[-1]] = fixed + [None] * (len(rows) - len(fixed))
    return "\n".join(line for line in lines if line is not None)


def fix(path, text):
    """Returns the text with what can be mended mechanically: blanks, blank lines, and sorted lists."""
    text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\n{3,}", "\n\n", text).rstrip("\n")
    text = text + "\n" if text else ""
    return _sort_lists(path, text)
