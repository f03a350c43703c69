"""One file that loads nothing, runs only our scripts, and escapes text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from energyalign.report.page.document import (
    Section,
    asset,
    commands_html,
    document,
    list_html,
    note_html,
    picture_html,
    table_html,
)

HOSTILE = "<script>alert(1)</script>&\"'"


class Parsed(HTMLParser):
    """Elements with their attributes, and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._in_script = False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self._in_script = tag == "script"
        if self._in_script:
            self.scripts.append("")

    def handle_endtag(self, tag):
        if tag == "script":
            self._in_script = False

    def handle_data(self, data):
        if self._in_script:
            self.scripts[-1] += data
        else:
            self.text += data


@pytest.fixture
def live():
    return [{"name": HOSTILE, "views": []}]


def test_hostile_text_stays_text(live) -> None:
    section = Section(
        HOSTILE,
        note_html(HOSTILE)
        + list_html([HOSTILE])
        + commands_html([HOSTILE])
        + table_html([HOSTILE], [[HOSTILE]], HOSTILE)
        + picture_html("<svg/>", HOSTILE),
    )
    page = Parsed(document(HOSTILE, [(HOSTILE, HOSTILE)], live, [section]))
    assert page.text.count(HOSTILE) == 13
    data = next(script for script in page.scripts if script.startswith("["))
    assert json.loads(data) == live
    assert not any("alert" in script for script in page.scripts if script != data)
    assert len(page.scripts) == 3  # the data, the charts, the program


def test_the_browser_is_told_to_run_nothing_else(live) -> None:
    page = Parsed(document("t", [], live, []))
    policy = next(a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    programs = [script for script in page.scripts if not script.startswith("[")]
    digests = {f"sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}" for s in programs}
    assert set(re.findall(r"'(sha256-[^']+)'", policy)) == digests
    assert "default-src 'none'" in policy
    assert "connect-src" not in policy
    assert "unsafe-inline" not in policy.split("style-src")[0]


def test_nothing_is_loaded(live) -> None:
    for mark in ("", "abc"):
        page = Parsed(document("t", [], live, [Section("f", picture_html("<svg/>", "c"))], mark=mark))
        for tag, attributes in page.elements:
            assert tag not in ("link", "iframe", "object", "base")
            assert (attributes.get("src") or "data:").startswith("data:"), (tag, attributes)
            assert not any(name.startswith("on") for name in attributes), (tag, attributes)


def test_only_a_served_page_asks_its_server(live) -> None:
    assert "connect-src 'self'" in document("t", [], live, [], mark="abc")
    assert '<meta name="energyalign-state" content="abc">' in document("t", [], live, [], mark="abc")
    assert asset("refresh.js") in document("t", [], live, [], mark="abc")
    assert asset("refresh.js") not in document("t", [], live, [])


def test_without_runs_there_is_no_live_part() -> None:
    page = Parsed(document("t", [("Nothing has been measured yet.", "")], [], []))
    assert page.scripts == []
    assert "Nothing has been measured yet." in page.text
    assert "Try it" not in page.text


def test_wide_pictures_have_a_row_of_their_own() -> None:
    for width, start in ((300, "<figure>"), (600, '<figure class="across">')):
        assert picture_html(f'<svg height="200pt" width="{width}pt" x="1"/>', "c").startswith(f"{start}<img ")


def test_numbers_to_the_right_and_text_to_the_left() -> None:
    html = table_html(["name", "accuracy", "difference"], [["a", "93.1 ± 0.2", "+0.3"], ["b", "-", ""]])
    assert '<th scope="col" class="text">name</th><th scope="col">accuracy</th><th scope="col">difference</th>' in html
    assert '<th scope="row" class="text">b</th><td>-</td><td></td>' in html


def test_long_tables_scroll() -> None:
    assert 'class="wide scroll"' not in table_html(["name"], [["a"]] * 25)
    assert '<div class="wide scroll" tabindex="0">' in table_html(["name"], [["a"]] * 26)
