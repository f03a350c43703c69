"""Strict JSON: invalid values are refused."""

from __future__ import annotations

import pytest

from energyalign.core._io.strict_json import parse_json


def test_ordinary_json() -> None:
    assert parse_json('{"a": [1, 2.5, null, "x"]}') == {"a": [1, 2.5, None, "x"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NaN", "NaN is not a JSON number"),
        ("[-Infinity]", "-Infinity is not"),
        ('{"a": 1, "a": 2}', "'a' is given twice"),
        ("[" * 100_000, "nested too deeply"),
        ("{", "Expecting property name"),
        ("1" * 5000, "Exceeds the limit"),
    ],
)
def test_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_json(text)
