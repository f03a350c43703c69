"""The page of real runs: what it says besides the live part."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from energyalign.core.metrics import shot_groups
from energyalign.report.page import write
from energyalign.report.page.document import document
from energyalign.report.page.encoding import BUDGET
from energyalign.report.page.view import Correction, View
from energyalign.report.page.write import page_of, write_page
from energyalign.report.runs import find_runs


def text_of(page: str) -> str:
    """What a reader sees, on one line; without scripts and styles."""
    shown = re.sub(r"<(script|style).*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", shown)).split())


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their own tests draw them."""
    monkeypatch.setattr(write, "drawn_figures", lambda _: [])


def test_how_to_run_it_again(long_tail: Path, in_steps: Path) -> None:
    page = text_of(page_of(find_runs([long_tail, in_steps])))
    assert "energyalign longtail digits --seed 0" in page
    assert "No command is on record for 1 of these runs" in page
    for run in find_runs([long_tail, in_steps]):
        assert run.manifest.short_hash in page
        assert str(run.config["recipe"]["epochs"]) in page
    assert "torch" in page


def test_tables_hold_every_row(long_tail: Path, in_steps: Path) -> None:
    runs = find_runs([long_tail, in_steps])
    page = text_of(page_of(runs))
    for run in runs:
        for row in run.rows:
            assert f"{100 * row['overall']:.1f}" in page


def test_folders_are_named_as_seen_from_the_page(long_tail: Path, tmp_path: Path) -> None:
    write_page(long_tail.parent / "report.html", find_runs([long_tail]))
    page = (long_tail.parent / "report.html").read_text()
    assert str(long_tail.parent) not in page
    write_page(tmp_path / "again.html", find_runs([long_tail]))
    write_page(tmp_path / "once more.html", find_runs([long_tail]))
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "once more.html").read_bytes()


def test_a_run_that_has_just_begun(long_tail: Path, tmp_path: Path) -> None:
    begun = tmp_path / "seed-1"
    begun.mkdir()
    (begun / "config.json").write_text((long_tail / "config.json").read_text())
    alone = text_of(page_of(find_runs([begun])))
    assert "Nothing has been measured yet." in alone
    assert "nothing saved yet" in alone
    both = text_of(page_of(find_runs([long_tail, begun])))
    assert "Still running, or stopped" in both
    assert "the test accuracy, " in both  # the verdict on the run that is finished


def test_settings_of_one_name_have_a_table_each(in_steps: Path, tmp_path: Path) -> None:
    """Rows of another number of epochs must not be averaged with these."""
    other = tmp_path / "seed-0"
    other.mkdir()
    for name in ("config.json", "rows.jsonl"):
        text = (in_steps / name).read_text()
        (other / name).write_text(re.sub(r'("epochs": )\d+', r"\g<1>9", text))
    (other / "manifest.json").write_bytes((in_steps / "manifest.json").read_bytes())
    for step in ("step-01", "step-02"):
        (other / step).mkdir()
        (other / step / "test_logits.safetensors").write_bytes(
            (in_steps / step / "test_logits.safetensors").read_bytes()
        )
    page = text_of(page_of(find_runs([in_steps, other])))
    for epochs in (2, 9):
        assert f"fed back: ea, {epochs} epochs: accuracy on all classes seen" in page


def test_a_thousand_classes_and_fifty_thousand_images_stay_small() -> None:
    n_classes, n_images = 1000, 50_000
    labels = np.repeat(np.arange(n_classes), n_images // n_classes)
    counts = np.geomspace(1280, 5, n_classes)

    def blocks():
        random = np.random.default_rng(0)
        for start in range(0, n_images, 5000):
            logits = random.standard_normal((5000, n_classes), dtype=np.float32)
            logits[np.arange(5000), labels[start : start + 5000]] += 4
            yield logits

    corrections = [Correction("ea", -np.log(counts), np.ones(n_classes), np.ones(n_classes))]
    names = [f"n{k:08d}" for k in range(n_classes)]
    view = View("", blocks, labels, names, counts, shot_groups(counts, n_classes), False, corrections)
    live = [{"name": "run", "views": [view.to_json(BUDGET)]}]
    page = document("big", [], live, [], is_served=False)
    assert len(page.encode()) < 15e6
    assert len(json.loads(json.dumps(live))[0]["views"][0]["classNames"]) == n_classes
    assert "closest to winning" in live[0]["views"][0]["note"]  # all images, not all classes
    assert "images, as many" not in live[0]["views"][0]["note"]
