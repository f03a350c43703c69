"""Text in LaTeX: escaped, folded, and measured in Computer Modern of the article class."""

from __future__ import annotations

import re
from dataclasses import dataclass

from energyalign.report.tables.model import one_line

_ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "†": r"$^\dagger$", "±": r"$\pm$",
    "[": "{[}", "]": "{]}",  # at the start of a line they would be an option of the line break before
}  # fmt: skip
# Widths in cmr9, the font of \small, in points, rounded up. cmr8 of \footnotesize is 8 % narrower.
_WIDTHS = {
    width: frozenset(characters)
    for width, characters in (
        (2.9, "ijl[],.:;!'|f"), (3.7, " -tI()rs_"), (4.2, "cez"), (4.9, "0123456789agokqvxy/*?J†"), (5.2, "bdhnpuS"),
        (6.3, "LFEPZ"), (7.3, "wBCTRADGHKNOQUVXY+=<>&@±"), (7.8, "m"),
    )
}  # fmt: skip
_WIDEST = 9.6
_BOLD = 1.16
_PLUS_MINUS, _SCRIPT_DIGIT = 6.4, 3.7
"""Widths in a subscript, whose font is the same for both sizes."""


@dataclass(frozen=True)
class Text:
    """LaTeX source, its width in points in \\small, and its number of lines."""

    tex: str
    width: float
    n_lines: int = 1


def escaped(text: str) -> str:
    """Escape special characters."""
    return "".join(_ESCAPES.get(character, character) for character in one_line(text))


def width_of(text: str, *, bold: bool = False) -> float:
    """Return the width of text in one line."""
    widths = (next((w for w, some in _WIDTHS.items() if letter in some), _WIDEST) for letter in one_line(text))
    return sum(widths) * (_BOLD if bold else 1.0)


def subscript_width(spread: str) -> float:
    """Return the width of ``± 0.4`` as a subscript."""
    return _PLUS_MINUS + _SCRIPT_DIGIT * len(spread)


def text(words: str, limit: float, *, place: str = "tl") -> Text:
    """Typeset words, in several lines if they are wider than a limit.

    Parameters
    ----------
    words : str
    limit : float
        Maximum width in points; longer words are broken.
    place : str, default "tl"
        Vertical position (``t``, ``b``) and alignment (``l``, ``c``, ``r``) of folded lines.
    """
    lines = _fold(one_line(words), limit)
    width = max(map(width_of, lines))
    if len(lines) == 1:
        return Text(escaped(lines[0]), width)
    body = r"\\".join(map(escaped, lines))
    return Text(rf"\begin{{tabular}}[{place[0]}]{{@{{}}{place[1]}@{{}}}}{body}\end{{tabular}}", width, len(lines))


def _fold(words: str, limit: float) -> list[str]:
    """Fold into lines of at most this width; wider words are broken after hyphens, or else anywhere."""
    if width_of(words) <= limit:
        return [words]
    lines = [""]
    for word in words.split():
        joined = f"{lines[-1]} {word}".strip()
        if width_of(joined) <= limit:
            lines[-1] = joined
            continue
        lines += [""] if lines[-1] else []
        for part in [word] if width_of(word) <= limit else re.findall(r"[^-]*-+|[^-]+", word):
            if lines[-1] and width_of(lines[-1] + part) > limit:
                lines.append("")
            for letter in part:
                if lines[-1] and width_of(lines[-1] + letter) > limit:
                    lines.append("")
                lines[-1] += letter
    return lines
