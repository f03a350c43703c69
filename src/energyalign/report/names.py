"""Names as a figure can show them."""

from __future__ import annotations

_LONGEST = 24


def shown(text: str) -> str:
    """What cannot be printed becomes a replacement character: it would break the lines, or an SVG file."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def short(text: str) -> str:
    """The same, cut to what finds room beside a panel."""
    text = shown(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"
