"""A new estimator is one class and one line of the registry: all interfaces accept it without other changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from energyalign.cli.main import main
from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError, UntrustedEstimateWarning
from energyalign.core.estimators import ESTIMATORS, Energies, Estimate, Estimator
from energyalign.core.estimators.base import cluster_means
from energyalign.core.evidence import Evidence
from energyalign.core.fitting import fit_shifts
from energyalign.core.selection import auto as selection_module
from energyalign.core.sharing import name_of
from energyalign.core.shifts import Shifts
from energyalign.experiments.correctors.shifts import ShiftCorrector
from energyalign.sklearn.aligner import EnergyAligner

COUNTS = [300.0, 100, 30, 10]


@dataclass(frozen=True)
class MeanLogit(Estimator):
    """The mean logit of each class over the balanced sample."""

    name: ClassVar[str] = "mean-logit"
    description: ClassVar[str] = "mean logit over the sample, per class"

    def energies(self, evidence: Evidence, clusters: Clusters) -> Energies:
        """Average over the samples, then over each cluster."""
        total = np.zeros(evidence.n_classes)
        for block in evidence.blocks():
            total += (block.weights * block.repeats) @ block.logits
        means = cluster_means(total / evidence.total_weight, evidence, clusters)
        zeros = np.zeros(clusters.n_clusters)
        return Energies(means, zeros, zeros)


class Picky(MeanLogit):
    """Applies to large samples only, and always has a doubt."""

    name: ClassVar[str] = "picky"

    def applies(self, evidence: Evidence) -> str | None:
        """Require a hundred samples."""
        return None if evidence.n_samples >= 100 else "picky needs 100 samples."

    def doubts(self, estimate: Estimate, evidence: Evidence) -> list[str]:  # noqa: ARG002
        """Return a doubt."""
        return ["picky is never content."]


class Guess(MeanLogit):
    """Reads no evidence."""

    name: ClassVar[str] = "guess"
    reads_evidence: ClassVar[bool] = False
    reads_counts: ClassVar[bool] = True


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for added in (MeanLogit, Picky, Guess):
        monkeypatch.setitem(ESTIMATORS, added.name, added)


@pytest.fixture
def evidence(simulate: Callable[..., Any]) -> Evidence:
    logits, labels = simulate(COUNTS, 60, seed=0)
    return Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out")


def test_by_its_name(evidence: Evidence) -> None:
    shifts = fit_shifts(evidence, estimator="mean-logit", clusters="per-class")
    [logits] = [block.logits for block in evidence.blocks()]
    assert evidence.labels is not None
    balanced = np.mean([logits[evidence.labels == k].mean(axis=0) for k in range(4)], axis=0)
    np.testing.assert_allclose(shifts.values, balanced[3] - balanced, atol=1e-12)
    assert shifts.estimator == "mean-logit"


def test_all_its_sharings_are_compared(evidence: Evidence) -> None:
    selection = fit_shifts(evidence, estimator="mean-logit").selection
    assert selection is not None
    assert [candidate.sharing for candidate in selection.candidates] == ["monotone", "per-class", "jenks-2", "jenks-3"]
    assert all(candidate.score is not None and candidate.score > 0.5 for candidate in selection.candidates)


def test_auto_takes_it_where_its_order_names_it(evidence: Evidence, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fit_shifts(evidence).estimator != "mean-logit"
    monkeypatch.setattr(selection_module, "IN_ORDER", ("mean-logit", "prior"))
    shifts = fit_shifts(evidence)
    assert shifts.estimator == "mean-logit"
    assert shifts.selection is not None
    assert [candidate.estimator for candidate in shifts.selection.candidates] == ["none", "mean-logit", "mean-logit"]


def test_it_says_itself_when_it_applies_and_what_it_doubts(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Evidence.from_arrays(np.random.default_rng(0).normal(size=(20, 4)), np.arange(20) % 4, counts=COUNTS)
    with monkeypatch.context() as patch:
        patch.setattr(selection_module, "IN_ORDER", ("picky", "prior"))
        with pytest.warns(UntrustedEstimateWarning, match="instead of 'picky': picky needs 100"):
            shifts = fit_shifts(small)
    assert shifts.estimator == "prior"
    assert shifts.selection is not None
    assert shifts.selection.candidates[0].problem == "picky needs 100 samples."
    with pytest.warns(UntrustedEstimateWarning):
        shifts = fit_shifts(small, estimator="picky", clusters="per-class")
    assert shifts.concerns == ("picky is never content.", "picky needs 100 samples.")


def test_it_says_itself_whether_evidence_is_needed(evidence: Evidence) -> None:
    read = [ShiftCorrector(name, "per-class").reads_evidence for name in ("auto", "mean-logit", "guess")]
    assert read == [True, True, False]
    assert [name_of(sharing) for sharing in Guess().sharings(evidence)] == ["per-class"]


def test_it_may_refuse(evidence: Evidence) -> None:
    with pytest.raises(EnergyAlignError, match="tau must be a finite number"):
        fit_shifts(evidence, estimator="mean-logit", tau=float("inf"))
    with pytest.raises(EnergyAlignError, match=r"choose lse, .*, mean-logit, picky, guess, auto"):
        fit_shifts(evidence, estimator="mean")


def test_the_other_doors_know_it(
    evidence: Evidence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [logits] = [block.logits for block in evidence.blocks()]
    expected = fit_shifts(evidence, estimator="mean-logit").values
    aligner = EnergyAligner(estimator="mean-logit", evidence="held-out").fit(logits, evidence.labels, counts=COUNTS)
    np.testing.assert_array_equal(aligner.shifts_.values, expected)

    monkeypatch.chdir(tmp_path)
    np.save("logits.npy", logits)
    np.save("labels.npy", evidence.labels)
    Path("counts.json").write_text(str(COUNTS))
    command = "fit logits.npy --labels labels.npy --counts counts.json --evidence held-out --estimator mean-logit"
    assert main([*command.split(), "--out", "shifts.json"]) == 0
    assert "mean-logit" in capsys.readouterr().out
    np.testing.assert_array_equal(Shifts.load("shifts.json").values, expected)
