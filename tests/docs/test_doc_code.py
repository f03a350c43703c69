"""The code of the pages that promise to run does run, in the order of the page, and says what the page says it says."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).parents[2] / "docs"


def run_page(name, folder):
    """All Python blocks of a page as one script; its global names."""
    text = (DOCS / name).read_text(encoding="utf-8")
    script = folder / "page.py"
    script.write_text("\n\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)))
    return runpy.run_path(str(script), run_name="page")


def numbers_after(words, name):
    """The two accuracies of `from A to B %` that follow these words on a page."""
    text = re.sub(r"\s+", " ", (DOCS / name).read_text(encoding="utf-8"))
    return [float(number) for number in re.search(rf"{words}.*? from ([\d.]+) to ([\d.]+) %", text).groups()]


def test_quickstart(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = run_page("quickstart.md", tmp_path)
    first, second = capsys.readouterr().out.split()[:2]
    assert [float(first[:-1]), float(second[:-1])] == numbers_after("takes the accuracy on", "quickstart.md")
    assert f"    {first}\n    {second}\n" in (DOCS / "quickstart.md").read_text(encoding="utf-8")
    scores = page["before"], page["after"]
    assert numbers_after("balanced accuracy rises", "quickstart.md") == [
        round(100 * score.balanced_accuracy, 1) for score in scores
    ]
    assert numbers_after("that of the digits with few training images", "quickstart.md") == [
        round(100 * score.groups(page["train_counts"])["few"], 1) for score in scores
    ]
    np.testing.assert_array_equal(page["corrected"], page["test_logits"] + page["shifts"].values)


def test_names(tmp_path, capsys):
    run_page("names.md", tmp_path)
    text = (DOCS / "names.md").read_text(encoding="utf-8")
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 2
    for line in said:
        assert f"\n\n    {line}\n\n" in text


@pytest.fixture
def registries():
    """What the page adds to the registries is gone afterwards."""
    from energyalign.core.estimators import ESTIMATORS
    from energyalign.experiments.correctors import CORRECTORS
    from energyalign.experiments.longtail.learners import LEARNERS
    from energyalign.experiments.longtail.methods import METHODS

    known = [(registry, dict(registry)) for registry in (ESTIMATORS, CORRECTORS, LEARNERS, METHODS)]
    yield
    for registry, before in known:
        registry.clear()
        registry.update(before)


@pytest.mark.usefixtures("registries")
def test_adding_a_method(tmp_path, monkeypatch):
    from energyalign.experiments.engine.stored import measured_runs
    from energyalign.experiments.longtail.methods import METHODS, name_of

    monkeypatch.chdir(tmp_path)
    page = run_page("adding-a-method.md", tmp_path)

    (run,) = measured_runs(["runs/poly"])
    assert run.config.values["learner"] == {"kind": "Poly", "epsilon": 2.0}
    assert {row.corrector for row in run.rows} == {"raw", "logit-adjustment", "ea", "tuned-prior"}
    assert "poly" in METHODS
    assert name_of("poly", "cosine", "raw") == "poly"

    # The corrector, from what is stored: raw logits less tau times the log prior.
    logits, labels = run.outputs()
    row = run.row_of("tuned-prior")
    prior = run.counts() / run.counts().sum()
    right = (logits - row.details["tau"] * np.log(prior)).argmax(axis=1) == labels
    assert row.overall == pytest.approx(right.mean())

    (steps,) = measured_runs(["runs/steps"])
    assert steps.n_steps == 5
    assert steps.row_of("raw", 1).overall == steps.row_of("tuned-prior", 1).overall  # nothing to correct yet
    logits, labels = steps.outputs()
    prior = steps.counts() / steps.counts().sum()
    last = steps.row_of("tuned-prior")
    right = (logits - last.details["tau"] * np.log(prior)).argmax(axis=1) == labels
    assert last.overall == pytest.approx(right.mean())

    (axes,) = page["draw"]([run]).axes
    raw = run.row_of("raw")
    by_count = [accuracy for _, accuracy in sorted(zip(raw.counts, raw.per_class, strict=True), reverse=True)]
    np.testing.assert_allclose([bar.get_height() for bar in axes.patches], 100 * np.array(by_count))
    worst = [line.cells[0].mean for line in page["spread_table"]([raw]).lines]
    assert worst == [pytest.approx(100 * min(raw.per_class))]
    assert Path("per_class.png").stat().st_size > 0
