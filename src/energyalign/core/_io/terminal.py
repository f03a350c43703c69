"""Safe terminal output: names of files, classes and folders cannot emit control sequences."""

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
_JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"  # used in Persian, Indic scripts and emojis
_UNSAFE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # controls, directions, surrogates, line separators


def clean(text: str) -> str:
    """Replace control characters in the text, but not newlines and tabs."""
    return _NOT_ASCII_TEXT.sub(_replace_unsafe, text)


def clean_for(stream: Any, text: str) -> str:
    """Return clean text in which `?` replaces what the encoding of the stream lacks, such as ASCII in a pipe."""
    text, encoding = clean(text), getattr(stream, "encoding", None)
    return text.encode(encoding, "replace").decode(encoding) if encoding else text


def _replace_unsafe(match: re.Match[str]) -> str:
    letter = match[0]
    is_unsafe = unicodedata.category(letter) in _UNSAFE and letter not in _JOINERS
    return "\N{REPLACEMENT CHARACTER}" if is_unsafe else letter


class CleanStream:
    """A text stream that cleans what is written; `unclean` is the original stream. Its `buffer` is not cleaned."""

    def __init__(self, stream: TextIO) -> None:
        self.unclean = stream

    def write(self, text: str) -> int:
        """Write clean text."""
        self.unclean.write(clean_for(self.unclean, text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write clean lines."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unclean, name)


@contextlib.contextmanager
def clean_streams() -> Iterator[None]:
    """Clean all output to the standard streams, including warnings, tracebacks and other libraries."""
    before = sys.stdout, sys.stderr
    # A stream may be None, as in a daemon.
    sys.stdout, sys.stderr = (cast("TextIO", stream and CleanStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


@contextlib.contextmanager
def showing(display: Any) -> Iterator[Any]:
    """Show a live display of rich, such as a progress bar.

    Meanwhile rich redirects the standard streams and would interpret escape sequences in them, so clean them first.
    """
    with display, clean_streams():
        yield display


def clean_console(stream: IO[str], **options: Any) -> Console:
    """Return a rich console that cleans text, but keeps its own colours and cursor movements."""
    from rich.console import Console
    from rich.segment import Segment

    class CleanConsole(Console):
        def render(self, *arguments: Any, **options: Any) -> Iterator[Segment]:
            for segment in super().render(*arguments, **options):
                yield segment if segment.control else Segment(clean_for(self.file, segment.text), segment.style)

    return CleanConsole(file=getattr(stream, "unclean", stream), highlight=False, **options)
