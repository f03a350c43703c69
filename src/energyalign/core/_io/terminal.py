"""Text for terminals: whatever a file, a class or a folder is called, it neither moves the cursor nor sets a title."""

from __future__ import annotations

import contextlib
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from rich.console import Console

_NOT_ASCII_TEXT = re.compile(r"[^\t\n -~]")
_JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"  # of Persian, Indic scripts and emojis
_UNSAFE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # controls, directions, half characters, lines that are none


def clean(text: str) -> str:
    """The text with a replacement character for all that is no text; lines and tabs stay."""
    return _NOT_ASCII_TEXT.sub(_replaced, text)


def _replaced(match: re.Match[str]) -> str:
    letter = match[0]
    is_unsafe = unicodedata.category(letter) in _UNSAFE and letter not in _JOINERS
    return "\N{REPLACEMENT CHARACTER}" if is_unsafe else letter


class CleanStream:
    """A text stream whose `write` cleans; `unclean` is the stream itself, and bytes go to its `buffer` as they are."""

    def __init__(self, stream: TextIO) -> None:
        self.unclean = stream

    def write(self, text: str) -> int:
        """As of any stream."""
        self.unclean.write(clean(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """As of any stream."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unclean, name)


@contextlib.contextmanager
def clean_streams() -> Iterator[None]:
    """Whoever prints meanwhile, warnings, tracebacks and other libraries among them, prints clean text."""
    before = sys.stdout, sys.stderr
    # Without a standard stream, as a daemon is, Python has None.
    sys.stdout, sys.stderr = (cast("TextIO", stream and CleanStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


@contextlib.contextmanager
def showing(display: Any) -> Iterator[Any]:
    """Show a live display of rich, such as a bar.

    Meanwhile rich prints for all others, and would obey the colours and links in what they print: it gets clean text.
    """
    with display, clean_streams():
        yield display


def clean_console(stream: IO[str], **options: Any) -> Console:
    """A console of rich: colours and cursors are its own, and the text in between is clean."""
    from rich.console import Console
    from rich.segment import Segment

    class CleanConsole(Console):
        def render(self, *arguments: Any, **options: Any) -> Iterator[Segment]:
            for segment in super().render(*arguments, **options):
                yield segment if segment.control else Segment(clean(segment.text), segment.style)

    return CleanConsole(file=getattr(stream, "unclean", stream), highlight=False, **options)
