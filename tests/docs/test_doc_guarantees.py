"""Every promise of docs/guarantees.md has a test, and every tested promise is listed there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def promised():
    """Return the first column of the table."""
    page = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    return re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE)[1:]


def carried():
    files = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    return {sentence for text in files for sentence in re.findall(r'mark\.promise\(\s*"([^"]+)"', text)}


def test_every_promise_is_tested_and_every_test_of_one_is_told():
    assert len(promised()) == len(set(promised())) > 10
    assert set(promised()) == carried()
