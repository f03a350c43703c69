"""Text in LaTeX: escaped, folded to a width, and how wide it is in the article class's Computer Modern."""

from __future__ import annotations

import re
from dataclasses import dataclass

from energyalign.report.tables.model import one_line

_ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "†": r"$^\dagger$", "±": r"$\pm$",
    "[": "{[}", "]": "{]}",  # at the beginning of a line they would be an option of the line break before
}  # fmt: skip
# Of cmr9, the font of \small, in points, rounded up. cmr8 of \footnotesize is 8 % narrower.
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
"""In a subscript, of which the font is the same for both sizes."""


@dataclass(frozen=True)
class Text:
    """What is written, and its width in points where the size is \\small."""

    tex: str
    width: float


def escaped(text: str) -> str:
    """Text that is set as it is."""
    return "".join(_ESCAPES.get(character, character) for character in one_line(text))


def width_of(text: str, *, bold: bool = False) -> float:
    """Of text in one line."""
    widths = (next((w for w, some in _WIDTHS.items() if letter in some), _WIDEST) for letter in one_line(text))
    return sum(widths) * (_BOLD if bold else 1.0)


def subscript_width(spread: str) -> float:
    """Of ``± 0.4`` as a subscript."""
    return _PLUS_MINUS + _SCRIPT_DIGIT * len(spread)


def text(words: str, limit: float, *, place: str = "tl") -> Text:
    """The words, in several lines if they are wider than a limit.

    Parameters
    ----------
    words : str
    limit : float
        In points. Longer words are broken, so that nothing is wider.
    place : str
        Which of several lines is level with the rest of the row, ``t`` or ``b``; and how they are aligned.
    """
    lines = _fold(one_line(words), limit)
    width = max(map(width_of, lines))
    if len(lines) == 1:
        return Text(escaped(lines[0]), width)
    body = r"\\".join(map(escaped, lines))
    return Text(rf"\begin{{tabular}}[{place[0]}]{{@{{}}{place[1]}@{{}}}}{body}\end{{tabular}}", width)


def _fold(words: str, limit: float) -> list[str]:
    """Lines of at most this width: broken after spaces and hyphens, within words only where there is no other way."""
    lines = [""]
    for part in re.findall(r"[^\s-]*(?:-+|\s+|$)", words):
        if width_of((lines[-1] + part).rstrip()) > limit and lines[-1]:
            lines.append("")
        for letter in part:
            if width_of((lines[-1] + letter).rstrip()) > limit and lines[-1]:
                lines.append("")
            lines[-1] += letter
    return [line.strip() for line in lines]
