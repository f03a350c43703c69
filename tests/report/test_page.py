"""The page shows what it was given, as text, and loads nothing."""

import base64
from html.parser import HTMLParser

import pytest

from energyalign.report.page import Figure, Section, Table, write_page

HOSTILE = "<script>alert(1)</script>"


class Seen(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.links, self.text, self.with_attributes = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.with_attributes.append((tag, dict(attrs)))
        self.links += [value for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture
def page(tmp_path):
    picture = tmp_path / "p.png"
    picture.write_bytes(b"\x89PNG pixels")
    figure = Figure(picture, f'"{HOSTILE}"')
    table = Table(["method", HOSTILE], [["raw", "1.0"], [HOSTILE, HOSTILE]], caption=HOSTILE)
    write_page(
        tmp_path / "page.html",
        title=HOSTILE,
        command=HOSTILE,
        sections=[
            Section(HOSTILE, [table], [HOSTILE], [figure]),
            Section("second", [Table(["n"], [["-1"], ["2"]]), Table(["m"], [["x"]])], [], []),
        ],
    )
    seen = Seen()
    seen.feed((tmp_path / "page.html").read_text())
    return seen


def test_hostile_text_stays_text(page):
    assert "script" not in page.tags
    # title twice, command; section: title, caption of the table, column, two cells, paragraph; caption of the figure
    assert page.text.count(HOSTILE) == 9
    assert page.text.count(f'"{HOSTILE}"') == 1


def test_pictures_are_inside_and_nothing_else_is_loaded(page):
    assert page.links == ["data:image/png;base64," + base64.b64encode(b"\x89PNG pixels").decode()]


def test_sections_come_in_their_order_with_all_their_tables(page):
    shown = [tag for tag in page.tags if tag in ("section", "h1", "h2", "table", "caption", "figure")]
    assert shown == ["h1", "section", "h2", "table", "caption", "figure", "section", "h2", "table", "table"]


def test_text_stands_to_the_left_and_numbers_to_the_right(page):
    columns = [attrs.get("class") for tag, attrs in page.with_attributes if tag == "th" and attrs["scope"] == "col"]
    assert columns == ["text", "text", None, "text"]
