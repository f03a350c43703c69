"""Temperature scaling behind any corrector: predictions stay, and the likelihood of the evidence is maximal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from untrained_run import images_of_test, scores_of_test, untrained_run

from energyalign.core.calibration import measure_calibration
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.correctors import find_corrector, temperature
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.trained import Trained

PLAN = EvidencePlan(5, "none")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return untrained_run(tmp_path_factory.mktemp("run"))


@pytest.mark.parametrize("name", ["raw", "ea", "logit-adjustment", "ncm"])
def test_only_how_sure_it_is_changes(trained: Trained, name: str) -> None:
    before = find_corrector(name).correct(trained, PLAN)
    after = find_corrector(f"{name}+ts").correct(trained, PLAN)
    scores = scores_of_test(trained, before)
    np.testing.assert_allclose(scores_of_test(trained, after), scores / after.details["temperature"], rtol=1e-5)
    np.testing.assert_array_equal(scores_of_test(trained, after).argmax(axis=1), scores.argmax(axis=1))
    assert after.network.backbone is trained.network.backbone
    assert after.gives_logits  # whatever the scores were before
    assert after.shifts is None
    assert set(before.shifts.concerns if before.shifts else ()) <= set(after.concerns)


@pytest.mark.parametrize(("name", "used"), [("raw", 1.0), ("ncm", 0.25)])
def test_a_network_that_knows_the_evidence_stays_as_it_is(
    trained: Trained, monkeypatch: pytest.MonkeyPatch, name: str, used: float
) -> None:
    monkeypatch.setattr(temperature, "fit_temperature", lambda _: 0.25)
    after = find_corrector(f"{name}+ts").correct(trained, PLAN)
    assert after.details["temperature"] == used  # distances need a scale of their own
    assert any("the evidence suggests a temperature of 0.25" in each for each in after.concerns) == (name == "raw")


def test_the_evidence_is_likelier_than_at_any_other(tmp_path: Path) -> None:
    trained = untrained_run(tmp_path)
    trained.network.head.weight.data.mul_(100.0)  # so overconfident that the temperature exceeds 1
    after = find_corrector("ea+ts").correct(trained, PLAN)
    said = trained.evidence_scores(after.network, PLAN)
    logits, labels = np.concatenate(said.blocks), said.all_labels()
    assert np.bincount(labels).tolist() == [5] * 10
    best, *others = (measure_calibration(logits / factor, labels).nll for factor in (1, 0.98, 1.02))
    assert best < min(others)


def test_behind_a_network_of_its_own(tmp_path: Path) -> None:
    trained = untrained_run(tmp_path)
    before = find_corrector("crt").correct(trained, PLAN)  # its batch statistics have moved
    assert before.network.backbone is not trained.network.backbone
    after = find_corrector("crt+ts").correct(trained, PLAN)
    scores = scores_of_test(trained, before) / after.details["temperature"]
    np.testing.assert_allclose(scores_of_test(trained, after), scores, rtol=1e-4, atol=1e-5)
    assert len(scores) == len(images_of_test(trained))
    assert after.details["epochs"] == before.details["epochs"]


def test_names() -> None:
    assert find_corrector("ea-M3+ts").inner == find_corrector("ea-M3")  # type: ignore[attr-defined]
    assert find_corrector("bic+ts").held_out == find_corrector("bic").held_out
    with pytest.raises(EnergyAlignError, match=r"unknown corrector 'nothing': choose .*followed by \+ts for"):
        find_corrector("nothing+ts")
