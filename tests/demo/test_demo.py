"""Both parts of the demo, with a few epochs and two seeds: files, page, and resuming after an interruption."""

import json
import shutil
import sys
from dataclasses import replace

import pytest
from incremental_run import StopAt

from energyalign.core._io.signals import Interrupted
from energyalign.demo import class_incremental, long_tail, run
from energyalign.demo.run import run_demo
from energyalign.experiments.train.run_directory import RunDirectory

WRITTEN = ("report.html", "rows.jsonl")


@pytest.fixture(scope="module", autouse=True)
def short():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "N_SEEDS", 2)
        for part in (long_tail, class_incremental):
            patch.setattr(part, "PRESET", replace(part.PRESET, recipe=part.PRESET.recipe.lasting(2)))
        yield


@pytest.fixture(scope="module")
def demo(tmp_path_factory, short):
    folder = tmp_path_factory.mktemp("demo")
    return folder, run_demo(folder, first_seed=0, say=lambda _: None, show=lambda _: None)


def test_rows_are_of_both_applications_in_the_order_of_the_page(demo):
    rows = [json.loads(line) for line in (demo[0] / "rows.jsonl").read_text().splitlines()]
    assert [row["cell"] for row in rows] == ["digits-lt-50"] * (2 * 2 * 5) + ["digits-il-5"] * (2 * 5 * 4)
    stored = [row for path in demo[0].glob("*/**/rows.jsonl") for row in RunDirectory(path.parent).read_rows()]
    assert sorted(map(str, rows)) == sorted(map(str, stored))


def test_the_page_is_of_all_runs_and_files_are_named(demo):
    folder, result = demo
    page = (folder / "report.html").read_text()
    assert "energyalign demo: digits" in page
    assert "Real logits: CIFAR-100-LT" in page
    for name in ("ce, cosine head, seed 0", "ce, linear head, seed 1", "fed back: ea, seed 1"):
        assert name in page
    assert [path.name for path in result.files] == list(WRITTEN)
    assert all(path.exists() for path in result.files)


def test_stopped_in_mid_step_it_goes_on_to_the_same_bytes(demo, tmp_path, monkeypatch):
    """Finished runs are kept, the rest is completed, and all bytes agree; one run of the first part is missing too."""
    folder, _ = demo
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("incremental", "report.html"))
    (copy / "rows.jsonl").unlink()
    shutil.rmtree(copy / "long-tail" / "linear" / "seed-1")
    with monkeypatch.context() as patch:
        experiment = class_incremental.IncrementalExperiment
        stopping = with_reporter(experiment.__init__, StopAt("step 3 of 5", epoch=2, batch=1))
        patch.setattr(experiment, "__init__", stopping)
        with pytest.raises(Interrupted):
            run_demo(copy, first_seed=0, say=lambda _: None, show=lambda _: None)
    assert (copy / "incremental" / "seed-0" / "step-02" / "network.safetensors").exists()
    assert not (copy / "incremental" / "seed-1").exists()
    assert not (copy / "report.html").exists()
    run_demo(copy, first_seed=0, say=lambda _: None, show=lambda _: None)
    compared = [path for path in folder.rglob("*") if path.name in (*WRITTEN, "test_logits.safetensors")]
    assert len(compared) == len(WRITTEN) + 2 * 2 * 2 + 2 * (1 + 5)  # number of rows and logits: heads, seeds, steps
    for path in compared:
        assert (copy / path.relative_to(folder)).read_bytes() == path.read_bytes()


def with_reporter(original, reporter):
    def init(self, *args, **kwargs):
        original(self, *args, **kwargs, reporter=reporter)

    return init


def test_without_matplotlib_there_are_no_figures_and_the_page_says_so(demo, tmp_path, monkeypatch):
    copy = tmp_path / "copy"
    shutil.copytree(demo[0], copy, ignore=shutil.ignore_patterns("report.html"))
    for name in [name for name in sys.modules if name.startswith("energyalign.report.drawing")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    run_demo(copy, first_seed=0, say=lambda _: None, show=lambda _: None)
    page = (copy / "report.html").read_text()
    assert 'alt="digits' not in page
    assert "they need matplotlib" in page
