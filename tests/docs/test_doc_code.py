"""The code of pages that promise to run does run, in the order of the page, and prints what the page shows."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def blocks_of(name):
    """Return the Python blocks of a page, each with the file name in its first line, or None."""
    text = (DOCS / name).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    files = [re.match(r"# ((?:src|tests)/\S+\.py)\n", block) for block in blocks]
    return [(file and file[1], block) for file, block in zip(files, blocks, strict=True)]


def run_page(name, monkeypatch):
    """Run all Python blocks of a page: blocks with a file name as modules, the others as one script.

    Returns the global names of the script, and the modules.
    """
    script, modules = ModuleType("page"), []
    monkeypatch.setitem(sys.modules, "page", script)
    for file, block in blocks_of(name):
        module = script
        if file is not None:
            module = ModuleType(file.removeprefix("src/").removesuffix(".py").replace("/", "."))
            monkeypatch.setitem(sys.modules, module.__name__, module)
            modules.append(module)
        exec(compile(block, f"{name}: {file or 'script'}", "exec", dont_inherit=True), module.__dict__)
    return script.__dict__, modules


def numbers_after(words, name):
    """Return the two accuracies of `from A to B %` after these words on a page."""
    text = re.sub(r"\s+", " ", (DOCS / name).read_text(encoding="utf-8"))
    return [float(number) for number in re.search(rf"{words}.*? from ([\d.]+) to ([\d.]+) %", text).groups()]


def test_quickstart(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page, _ = run_page("quickstart.md", monkeypatch)
    first, second = capsys.readouterr().out.split()[:2]
    assert [float(first[:-1]), float(second[:-1])] == numbers_after("takes the accuracy on", "quickstart.md")
    assert f"    {first}\n    {second}\n" in (DOCS / "quickstart.md").read_text(encoding="utf-8")
    scores = page["before"], page["after"]
    assert numbers_after("balanced accuracy rises", "quickstart.md") == [
        round(100 * score.balanced_accuracy, 1) for score in scores
    ]
    assert numbers_after("the accuracy of the digits with few training images", "quickstart.md") == [
        round(100 * score.groups(page["train_counts"])["few"], 1) for score in scores
    ]
    np.testing.assert_array_equal(page["corrected"], page["test_logits"] + page["shifts"].values)


def test_objectives(monkeypatch, capsys):
    page, _ = run_page("objectives.md", monkeypatch)
    summary, reason = capsys.readouterr().out, page["model"].shifts_.selection.reason
    assert "for f1_macro, from 1,334 out-of-fold samples" in summary
    assert "of class 1 (minimum 0.6)" in reason
    np.testing.assert_allclose(page["half"].values, page["model"].shifts_.values / 2)


def test_names(monkeypatch, capsys):
    run_page("names.md", monkeypatch)
    text = (DOCS / "names.md").read_text(encoding="utf-8")
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 2
    for line in said:
        assert f"\n\n    {line}\n\n" in text


def test_heads(monkeypatch, capsys):
    run_page("heads.md", monkeypatch)
    text = (DOCS / "heads.md").read_text(encoding="utf-8")
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 5
    assert all(f"\n    {line}\n" in text for line in said)


def test_real_frequencies(monkeypatch, capsys):
    page, _ = run_page("real-frequencies.md", monkeypatch)
    printed = capsys.readouterr().out
    assert f"    {printed}" in (DOCS / "real-frequencies.md").read_text(encoding="utf-8")
    assert abs(page["real"][:, 1].mean() - page["y"][1::2].mean()) < 0.002 < page["raw"][:, 1].mean() - 0.1


@pytest.fixture
def registries():
    """Restore the registries to which the page adds entries."""
    from energyalign.core.estimators import ESTIMATORS
    from energyalign.experiments.correctors import CORRECTORS
    from energyalign.experiments.incremental.learners import LEARNERS as LEARNERS_IN_STEPS
    from energyalign.experiments.longtail.learners import LEARNERS
    from energyalign.experiments.longtail.methods import METHODS
    from energyalign.experiments.nets.registry import BACKBONES

    changed = (ESTIMATORS, CORRECTORS, LEARNERS_IN_STEPS, LEARNERS, METHODS, BACKBONES)
    known = [(registry, dict(registry)) for registry in changed]
    yield
    for registry, before in known:
        registry.clear()
        registry.update(before)


@pytest.mark.usefixtures("registries")
def test_features(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page, _ = run_page("features.md", monkeypatch)
    assert "Top-1 accuracy (%) on digits-lt-50" in capsys.readouterr().out
    assert len(page["frame"]) == 4
    assert page["figure"].axes
    assert {row.cell for row in page["own"].rows} == {"features-pets"}
    raw, aligned = (row.balanced for row in page["own"].rows)
    assert aligned > raw > 0.7


@pytest.mark.usefixtures("registries")
def test_adding_a_method(tmp_path, monkeypatch):
    from energyalign.experiments.engine.stored import measured_runs
    from energyalign.experiments.longtail.methods import METHODS, name_of

    monkeypatch.chdir(tmp_path)
    page, modules = run_page("adding-a-method.md", monkeypatch)
    (tested,) = [module.test_two_equal_classes for module in modules if module.__name__.startswith("tests.")]
    tested()

    (run,) = measured_runs(["runs/poly"])
    assert run.config.values["learner"] == {"kind": "Poly", "epsilon": 2.0}
    assert {row.corrector for row in run.rows} == {"raw", "logit-adjustment", "ea", "tuned-prior", "ea-capped"}
    assert "poly" in METHODS
    assert name_of("poly", "cosine", "raw") == "poly"

    # The corrector, computed from stored arrays: raw logits minus tau times the log prior.
    logits, labels = run.outputs()
    row = run.row_of("tuned-prior")
    prior = run.counts() / run.counts().sum()
    right = (logits - row.details["tau"] * np.log(prior)).argmax(axis=1) == labels
    assert row.overall == pytest.approx(right.mean())

    # The shifts of energy aligning, clipped at 1.
    aligned, capped = np.array(run.row_of("ea").shifts), np.array(run.row_of("ea-capped").shifts)
    assert max(abs(aligned)) > 1
    np.testing.assert_array_equal(capped, aligned.clip(-1, 1))
    right = (logits + capped.astype(np.float32)).argmax(axis=1) == labels
    assert run.row_of("ea-capped").overall == pytest.approx(right.mean())

    (steps,) = measured_runs(["runs/steps"])
    assert steps.n_steps == 5
    assert steps.row_of("raw", 1).overall == steps.row_of("tuned-prior", 1).overall  # nothing to correct yet
    logits, labels = steps.outputs()
    prior = steps.counts() / steps.counts().sum()
    assert max(abs(np.array(steps.row_of("ea-capped").shifts))) <= 1
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


FILES = [(file, block) for file, block in blocks_of("adding-a-method.md") if file]
LIGHT = [(file, block) for file, block in FILES if re.search("/(learners|correctors)/", file)]


def test_pasted_files_pass_the_linter(tmp_path):
    pytest.importorskip("ruff")
    assert len(FILES) >= 8
    for file, block in FILES:
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.partition("\n")[2], encoding="utf-8")  # without the path
    for command in (["check", "--no-cache"], ["format", "--no-cache", "--check"]):
        arguments = [sys.executable, "-m", "ruff", *command, "--config", str(ROOT / "pyproject.toml"), str(tmp_path)]
        result = subprocess.run(arguments, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("block", [block for _, block in LIGHT], ids=[file for file, _ in LIGHT])
def test_pasted_learners_and_correctors_leave_the_registries_light(block, tmp_path):
    (tmp_path / "pasted.py").write_text(block + "\nimport sys\nassert 'torch' not in sys.modules\n", encoding="utf-8")
    result = subprocess.run([sys.executable, "pasted.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
