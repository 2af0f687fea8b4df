"""Examples compile: those of the pages, and those in the comments of the public headers."""

import os
import pathlib

import examples_compile

ROOT = pathlib.Path(examples_compile.__file__).resolve().parents[2]
HEADERS = os.environ["PUBLIC_HEADERS"].split()


def pages():
    return [ROOT / "README.md", *sorted(ROOT.glob("docs/guide/*.md"))]


def test_examples_of_pages_compile():
    examples = [
        (f"{page.relative_to(ROOT)}:{line}", language, f'#line {line} "{page.name}"\n{code}')
        for page in pages()
        for line, language, code in examples_compile.page_examples(page.read_text(encoding="utf-8"))
    ]
    assert len(examples) > 5
    assert "\n".join(examples_compile.problems(ROOT, examples)) == ""


def test_examples_in_public_headers_compile():
    examples = [
        (f"{header}:{line}", "cpp", examples_compile.as_program(header, line, code))
        for header in HEADERS
        for line, code in examples_compile.header_examples((ROOT / header).read_text(encoding="utf-8"))
    ]
    assert len(examples) >= 4, [name for name, _, _ in examples]
    assert "\n".join(examples_compile.problems(ROOT, examples)) == ""


def test_an_example_that_does_not_compile_is_found(tmp_path):
    (found,) = examples_compile.problems(tmp_path, [("page.md:3", "cpp", "int f() { return no_such_name; }\n")])
    assert found.startswith("page.md:3 does not compile:") and "no_such_name" in found


def test_a_statement_with_a_lambda_is_no_definition():
    program = examples_compile.as_program("a.h", 1, "Register([](int number) {\n});\n")
    assert "Example() {" in program


def test_examples_are_found_in_comments():
    text = "// Adds.\n//\n//   int x = Add(1, 2);\n//   Use(x);\n//\n// It returns:\n// - a list\n//   that goes on\nint Add(int, int);\n"
    assert examples_compile.header_examples(text) == [(3, "int x = Add(1, 2);\nUse(x);\n\n")]
    assert examples_compile.header_examples("/*\n * Adds:\n *\n *   int x = 1;\n */\n") == [(4, "int x = 1;\n")]
