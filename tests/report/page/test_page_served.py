"""A served page follows its runs, and keeps the reader's choices."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Watched

from energyalign.report import server
from energyalign.report.page.story import Pictures
from energyalign.report.server import LivePage, make_server


@pytest.fixture
def folder(long_tail: Path, tmp_path: Path) -> Path:
    shutil.copytree(long_tail, tmp_path / "runs" / "seed-0")
    return tmp_path / "runs" / "seed-0"


@pytest.fixture
def address(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(server, "draw_pictures", lambda _: Pictures([], []))
    with make_server(LivePage([folder.parent]), 0) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://localhost:{running.server_address[1]}/"
        running.shutdown()
        thread.join()


def test_it_follows(browser, address: str, folder: Path) -> None:
    page = Watched(browser, address)
    page.choose("correction", value="logit-adjustment")
    page.slide(0.25)
    page.page.locator("#search").fill("7")
    away = folder.parent.with_name("away")
    folder.rename(away)  # while the file is unreadable for a moment, the page must not become an error
    page.page.wait_for_event("response", lambda answer: answer.status == 500)
    rows = (away / "rows.jsonl").read_text().splitlines()
    (away / "rows.jsonl").write_text("\n".join(line for line in rows if '"corrector": "ea"' not in line) + "\n")
    with page.page.expect_navigation():
        away.rename(folder)
    page.settle()
    assert page.page.locator("#correction option").all_inner_texts() == [
        "logit-adjustment", "ea-marginal", "ea-auto", "none (raw model)",
    ]  # fmt: skip
    assert page.page.locator("#correction").input_value() == "logit-adjustment"
    assert page.text("#strength-shown") == "0.25"
    assert [cells[0] for cells in page.table("#classes")] == ["7"]
    assert [line for line in page.problems if "500" not in line] == []
    assert {url for url in page.requests if not url.startswith("data:")} == {address}
