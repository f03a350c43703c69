"""Text for a terminal: no escape sequences, no change of direction, no half characters."""

from __future__ import annotations

import io
import sys
import unicodedata

import pytest
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from energyalign.core._io.terminal import clean, clean_console, clean_streams, showing

HOSTILE = "\x1b]52;c;aGk=\x07\x1b[2J\x9b31m\r\x08\x7f\u202e\u2028\ud800"


def test_every_character_is_kept_or_replaced_by_one() -> None:
    """For all of Unicode: kept characters are visible, a space, or part of a script."""
    for number in range(sys.maxunicode + 1):
        letter = chr(number)
        found = clean(f"a{letter}b")
        assert found in (f"a{letter}b", "a\ufffdb")
        if found[1] == letter:
            assert letter in "\t\n\u200c\u200d" or unicodedata.category(letter)[0] in "LMNPS" or letter.isspace()
    assert clean("línea\tπ → 漢字 👍🏽 नी می\u200cخواهم\n") == "línea\tπ → 漢字 👍🏽 नी می\u200cخواهم\n"
    assert set(clean(HOSTILE)) <= set("]52;c;aGk=[2J31m\ufffd")


def test_lines_are_clean_and_bytes_are_as_they_are(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    before = sys.stdout, sys.stderr
    with clean_streams():
        print(HOSTILE)
        sys.stdout.writelines([HOSTILE, "\n"])
        print(HOSTILE, file=sys.stderr)
        sys.stdout.flush()
        sys.stdout.buffer.write(b"\x1b[31m")
    assert (sys.stdout, sys.stderr) == before
    out, err = capsysbinary.readouterr()
    assert out == 2 * (clean(HOSTILE).encode() + b"\n") + b"\x1b[31m"
    assert err == clean(HOSTILE).encode() + b"\n"


def test_without_standard_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with clean_streams():
        assert sys.stdout is None


def test_colours_of_a_console_are_its_own() -> None:
    stream = io.StringIO()
    console = clean_console(stream, force_terminal=True, color_system="standard", legacy_windows=False)
    table = Table(title=HOSTILE)
    table.add_column(HOSTILE)
    table.add_row(Text(HOSTILE, style="bold"))
    console.print(table)
    console.print(HOSTILE, style="red", markup=False)
    with Progress(console=console) as bar:
        bar.add_task(HOSTILE, total=1)
    text = stream.getvalue()
    assert "\x1b[31m" in text  # red
    assert "\x1b[1m" in text  # bold
    for piece in ("\x1b]", "\x07", "\x1b[2J", "\x9b", "\x08", "\x7f", "\u202e", "\u2028", "\ud800"):
        assert piece not in text


def test_lines_beside_a_bar_have_no_colours_and_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich would interpret hidden text, and links with a false address."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    console = clean_console(stream, force_terminal=True, color_system="standard", legacy_windows=False)
    with showing(Progress(console=console)):
        print("\x1b]8;;mailto:evil@example.com\x1b\\good\x1b]8;;\x1b\\ \x1b[8mhidden \x1b[31mred")
    assert sys.stdout is stream
    assert "good" in stream.getvalue()
    for piece in ("\x1b]8", "\x1b[8m", "\x1b[31m"):
        assert piece not in stream.getvalue()
