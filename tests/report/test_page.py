"""The page shows what it was given, as text, and loads nothing."""

import base64
from html.parser import HTMLParser

import pytest

from energyalign.report.page import Figure, write_page

HOSTILE = "<script>alert(1)</script>"


class Seen(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.links, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture
def page(tmp_path):
    picture = tmp_path / "p.png"
    picture.write_bytes(b"\x89PNG pixels")
    write_page(
        tmp_path / "page.html",
        title=HOSTILE,
        command=HOSTILE,
        paragraphs=[HOSTILE],
        columns=["method", HOSTILE],
        rows=[["raw", "1.0"], [HOSTILE, HOSTILE]],
        figures=[Figure(picture, f'"{HOSTILE}"')],
    )
    seen = Seen()
    seen.feed((tmp_path / "page.html").read_text())
    return seen


def test_hostile_text_stays_text(page):
    assert "script" not in page.tags
    assert page.text.count(HOSTILE) == 7  # title twice, command, paragraph, column, two cells


def test_pictures_are_inside_and_nothing_else_is_loaded(page):
    assert page.links == ["data:image/png;base64," + base64.b64encode(b"\x89PNG pixels").decode()]
