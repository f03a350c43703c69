"""Plain English: words of a private dialect do not come back.

Each pattern has the reason why a reader stumbles over it. See the table "English" of CONTRIBUTING.md.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
SCRIPTS = [path for path in sorted((ROOT / "src").rglob("*.js")) if not path.name.endswith(".min.js")]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]

WORDS = {
    r"\bMOST_|\bFEWEST_": "every engineer writes MAX_ and MIN_",
    r"may they": "a wish, not a statement: say what is done, at most how often",
    r"is told by": "say what the thing is",
    r"that is none\b|\bis none:": "name the value: NaN, +inf, a missing file",
    r"stands where|stand where": "say what was expected and what was got",
    r"made ready": "say what is done to it: fuse, load, compile",
    r"\bnot at hand\b|\bwere at hand\b": "say what was tested and what was not",
    r"asked much": "say how often it is called, or nothing",
}
NAMES = {"found", "told", "opened", "described", "made", "asked", "given", "taken"}  # functions are verbs: look_up()
DOCUMENTED = (ast.FunctionDef, ast.ClassDef, ast.Module)
EMPTY = re.compile(r"(No|Yes|Nothing|None|Never|Here|Always|It)[.!]?")


@pytest.mark.parametrize("pattern", WORDS)
def test_no_private_words(pattern):
    for path in [*SOURCES, *SCRIPTS, *PAGES]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert not re.search(pattern, line), f"{path.relative_to(ROOT)}:{number}: {WORDS[pattern]}: {line.strip()}"


def functions(path):
    return [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef)]


def is_value(function):
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)


def test_functions_are_verbs():
    wrong = [
        f"{path.relative_to(ROOT)}: {function.name}"
        for path in SOURCES
        for function in functions(path)
        if function.name.strip("_") in NAMES and not is_value(function)
    ]
    assert not wrong


def test_docstrings_say_something():
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, DOCUMENTED):
                text = ast.get_docstring(node) or ""
                assert not EMPTY.fullmatch(text), f"{path.relative_to(ROOT)}: {getattr(node, 'name', '')}: {text}"


def test_no_line_of_a_page_is_a_comment():
    """The site drops lines that begin with a percent sign."""
    for path in PAGES:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert not line.lstrip().startswith("%"), f"{path.relative_to(ROOT)}:{number}: move the % to the line above"


def test_messages_of_the_core_suit_the_command_line_too():
    """Commands print them as well, where Python arguments such as estimator='prior' are not valid."""
    for path in (ROOT / "src" / "energyalign" / "core").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, DOCUMENTED)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in docstrings:
                found = re.search(r"\b(estimator|clusters|counts)=['.]", node.value)
                assert not found, f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}"
