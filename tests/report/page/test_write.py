"""The page of real runs, apart from the live part."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from energyalign import Clusters, Shifts
from energyalign.core.metrics import shot_groups
from energyalign.experiments.engine.stored import find_runs
from energyalign.experiments.train.run_directory import RunDirectory
from energyalign.report.page import write
from energyalign.report.page.story import Pictures
from energyalign.report.page.view import Correction, View
from energyalign.report.page.write import page_of, write_page


def text_of(page: str) -> str:
    """Return the visible text on one line, without scripts and styles."""
    shown = re.sub(r"<(script|style).*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", shown)).split())


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave figures out; other tests draw them."""
    monkeypatch.setattr(write, "draw_pictures", lambda _: Pictures([], []))


def test_how_to_run_it_again(long_tail: Path, in_steps: Path) -> None:
    page = text_of(page_of(find_runs([long_tail, in_steps])))
    assert "energyalign longtail digits --seed 0" in page
    assert "No command is on record for 1 of these runs" in page
    for run in find_runs([long_tail, in_steps]):
        assert run.manifest.short_hash in page
        assert str(run.config.epochs) in page
    assert "torch" in page


def test_tables_hold_every_row(long_tail: Path, in_steps: Path) -> None:
    runs = find_runs([long_tail, in_steps])
    page = text_of(page_of(runs))

    def cells(values) -> str:
        return " ".join("-" if value is None else f"{100 * value:.1f}" for value in values)

    for row in runs[0].rows:
        groups = cells(row.accuracy(name) for name in ("balanced", "many", "medium", "few"))
        assert f" {row.corrector} {groups} 1 " in page
    for corrector in ("raw", "ea", "logit-adjustment"):
        by_step = cells(row.balanced for row in runs[1].rows if row.corrector == corrector)
        assert f" {corrector} {by_step} " in page


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
    assert "Unfinished runs" in both
    assert "Balanced accuracy " in both  # the headline of the finished run


def with_9_epochs(text: str) -> str:
    return re.sub(r'("epochs": )\d+', r"\g<1>9", text)


def test_settings_of_one_name_have_a_table_each(in_steps: Path, tmp_path: Path) -> None:
    """Rows with another number of epochs must not be averaged with these."""
    other = tmp_path / "seed-0"
    other.mkdir()
    (other / "config.json").write_text(with_9_epochs((in_steps / "config.json").read_text()))
    rows = RunDirectory(in_steps).read_rows()
    RunDirectory(other).write_rows([json.loads(with_9_epochs(json.dumps(row))) for row in rows])
    (other / "manifest.json").write_bytes((in_steps / "manifest.json").read_bytes())
    for step in ("step-01", "step-02"):
        (other / step).mkdir()
        (other / step / "test_logits.safetensors").write_bytes(
            (in_steps / step / "test_logits.safetensors").read_bytes()
        )
    page = text_of(page_of(find_runs([in_steps, other])))
    for epochs in (2, 9):
        assert f"fed back: ea, {epochs} epochs: balanced accuracy on all classes seen" in page


def test_without_logits_the_rest_of_the_page_is_there(long_tail: Path, tmp_path: Path) -> None:
    for name in ("config.json", "rows.jsonl"):
        (tmp_path / name).write_bytes((long_tail / name).read_bytes())
    page = page_of(find_runs([tmp_path]))
    assert "Left out of the live part" in page
    assert "cannot read" in text_of(page)
    assert 'id="data"' not in page
    assert re.search(r"Balanced accuracy [\d.]+ % → [\d.]+ % with energy aligning \(1 seed\)\.", text_of(page))


def test_figures_that_cannot_be_drawn_are_named(long_tail: Path) -> None:
    page = page_of(find_runs([long_tail]), draw=lambda _: Pictures([("<svg/>", "one")], ["the figure <b> needs steps"]))
    assert page.count('<img src="data:image/svg') == 1
    assert "the figure &lt;b&gt; needs steps" in page


def test_a_thousand_classes_and_fifty_thousand_images_stay_small(long_tail: Path, monkeypatch) -> None:
    """Beside figures of several megabytes, logits get the remaining bytes."""
    n_classes, n_images = 1000, 50_000
    labels = np.repeat(np.arange(n_classes), n_images // n_classes)
    counts = np.geomspace(1280, 5, n_classes)

    def blocks():
        random = np.random.default_rng(0)
        for start in range(0, n_images, 5000):
            logits = random.standard_normal((5000, n_classes), dtype=np.float32)
            logits[np.arange(5000), labels[start : start + 5000]] += 4
            yield logits

    shifts = -np.log(counts)
    full = Shifts(
        shifts, np.full(n_classes, np.pi), Clusters.per_class(n_classes), np.full(n_classes, 1 / n_classes), "lse",
        effective_samples=shifts**2 + 1, counts=counts,
    )  # fmt: skip
    corrections = [Correction(f"ea-M{k}", full) for k in range(5)]
    names = [f"n{k:08d}" for k in range(n_classes)]
    view = View("", blocks, labels, names, counts, shot_groups(counts, n_classes), False, corrections)
    monkeypatch.setattr(write, "views_of", lambda _: [view])
    pictures = Pictures([("x" * 3_000_000, "figures")], [])
    page = page_of(find_runs([long_tail]), draw=lambda _: pictures)
    assert len(page.encode()) < 15e6
    assert "that come closest to winning" in page
    assert "images, spread evenly over the classes" not in page  # all images are there
    candidates = re.search(r'"candidates":(\d+)', page)
    assert candidates is not None
    assert int(candidates[1]) < 35  # as many as without the figures


def test_energy_aligning_is_compared_with_the_raw_network(long_tail: Path) -> None:
    page = text_of(page_of(find_runs([long_tail])))
    (run,) = find_runs([long_tail])
    raw, aligned = run.row_of("raw"), run.row_of("ea")
    assert raw is not None
    assert aligned is not None
    assert "raw ea gain s.e. 95 % interval only raw right only ea right p" in page
    headline = rf"Balanced accuracy {100 * raw.balanced:.1f} % → {100 * aligned.balanced:.1f} % with energy aligning "
    assert re.search(headline + r"\(1 seed; 95 % interval of the gain: [-+][\d.]+ to [-+][\d.]+\)\.", page)
    gain = 100 * (aligned.balanced - raw.balanced)
    line = rf"seed 0 {100 * raw.balanced:.1f} {100 * aligned.balanced:.1f} {re.escape(f'{gain:+.1f}')} [\d.]+ "
    assert re.search(line + r"[-+][\d.]+ to [-+][\d.]+ \d+ \d+ (< 0\.001|[\d.e-]+)", page)
    assert "exact two-sided McNemar test" in page
    assert f"{raw.nll:.3f} {raw.brier:.3f}" in page
