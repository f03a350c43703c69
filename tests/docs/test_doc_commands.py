"""The parser accepts every `energyalign ...` command line in the documentation."""

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from energyalign.cli.main import build_parser

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands(text):
    """Return the command lines of indented and fenced blocks, with continued lines, and those in the text."""
    joined = re.sub(r"\\\n\s*", " ", text)
    blocks = re.findall(r"^(?:    +|\$ )?(energyalign .+)$", joined, re.MULTILINE)
    inline = re.findall(r"`(energyalign [^`]*--[^`]+)`", re.sub(r"\s+", " ", text))
    return [line for line in [*blocks, *inline] if "..." not in line]


def arguments(line):
    """Return the words after the name of the program, without comments and pipes."""
    return shlex.split(line.partition(" | ")[0].partition(" > ")[0], comments=True)[1:]


LINES = [(page.name, line) for page in PAGES for line in commands(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("page", "line"), LINES, ids=[f"{page}: {line[:60]}" for page, line in LINES])
def test_it_parses(page, line, capsys):
    try:
        build_parser().parse_args(arguments(line))
    except SystemExit as stop:
        if stop.code != 0:  # as --help leaves with
            pytest.fail(f"{page}: {line}\n{capsys.readouterr().err}")


@pytest.mark.parametrize("application", ["longtail", "incremental"])
def test_methods_and_correctors_exist(application):
    methods = set(import_module(f"energyalign.experiments.{application}.methods").METHODS) | {"all"}
    from energyalign.experiments.correctors import find_corrector

    for page, line in LINES:
        words = arguments(line)
        if words[0] != application or page == "adding-a-method.md":  # which makes up its own
            continue
        asked = build_parser().parse_args(words)
        assert set(asked.method or ()) <= methods, f"{page}: {line}"
        for name in asked.corrector or ():
            assert name == "all" or find_corrector(name), f"{page}: {line}"


def test_commands_are_found_and_can_be_wrong(capsys):
    assert len(LINES) > 30
    (line,) = commands("    energyalign longtail digits \\\n        --method ea   # seconds\n")
    assert arguments(line) == ["longtail", "digits", "--method", "ea"]
    with pytest.raises(SystemExit):
        build_parser().parse_args(arguments("energyalign longtail digits --no-such-option"))
    assert "--no-such-option" in capsys.readouterr().err
