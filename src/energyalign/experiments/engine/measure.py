"""A trained network on test images. This is the only place of an experiment that sees them."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

import energyalign
from energyalign.core.errors import EnergyAlignError
from energyalign.core.metrics import ClassScores
from energyalign.core.shifts import Shifts
from energyalign.experiments.correctors.base import Corrected
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.engine.for_inference import for_inference
from energyalign.experiments.engine.outputs import Floats32
from energyalign.experiments.engine.plan import EvidencePlan
from energyalign.experiments.engine.row import Numbers, Row, Settings
from energyalign.experiments.engine.stored import logits_file, predictions_file
from energyalign.experiments.engine.trained import Trained
from energyalign.experiments.train.tensor_file import load_arrays, save_arrays


@dataclass(frozen=True)
class RunFacts:
    """What rows say of their run besides its config.

    Attributes
    ----------
    manifest : str
        The hash of the record of its images.
    memory, fed_back, order
        See `Row`.
    """

    manifest: str
    memory: str | None = None
    fed_back: str | None = None
    order: tuple[int, ...] | None = None


class Measure:
    """Passes over the test images once, whatever the number of heads, and not at all if there is none to measure."""

    def __init__(self, trained: Trained, test: ImageSet, facts: RunFacts) -> None:
        self._trained, self._test, self._facts = trained, test, facts

    def known(self, name: str, plan: EvidencePlan | None, stored: Sequence[Row]) -> Row | None:
        """The row of an earlier process, if it is of this very network and all its files are there."""
        trained = self._trained
        key = (trained.number, name, plan)
        row = next((row for row in stored if (row.step, row.corrector, row.evidence) == key), None)
        if row is None or (row.network_sha256, row.versions) != (trained.network_sha256, versions()):
            return None
        files = (self._logits_file, predictions_file(trained.run.path, row.config, row.step, name, plan))
        return row if all(map(self._is_whole, files)) else None

    def row(self, name: str, plan: EvidencePlan | None, corrected: Corrected) -> Row:
        """The result of a corrector; its predictions go to a file."""
        trained = self._trained
        said = self._scores(corrected)
        settings = Settings(trained.config.to_json())
        if trained.run.writes:
            path = predictions_file(trained.run.path, settings, trained.number, name, plan)
            path.parent.mkdir(exist_ok=True)
            save_arrays(path, {"predictions": said.argmax(axis=1).astype(np.uint16)})
        return self._row(name, plan, settings, corrected, said)

    def _scores(self, corrected: Corrected) -> Floats32:
        features, network = self._features, corrected.network
        if network.backbone is not self._trained.network.backbone:
            return self._trained.features(self._test, for_inference(network))
        return self._trained.scores(network.head, features)

    @cached_property
    def _features(self) -> Floats32:
        """Of the test images; the logits of the network as trained go to a file on the way."""
        trained = self._trained
        features = trained.features(self._test)
        if trained.run.writes:
            logits = trained.scores(trained.network.head, features)
            save_arrays(self._logits_file, {"logits": logits, "labels": self._test.labels})
        return features

    @property
    def _logits_file(self) -> Path:
        trained = self._trained
        return logits_file(trained.run.path, Settings(trained.config.to_json()), trained.number)

    def _is_whole(self, path: Path) -> bool:
        """Whether the file is there and can be read; a damaged one is reported, and will be written again."""
        if not path.exists():
            return False
        try:
            load_arrays(path)
        except EnergyAlignError as error:
            self._trained.reporter.note(f"Measuring step {self._trained.number} again: {error}")
            return False
        return True

    def _row(
        self, name: str, plan: EvidencePlan | None, settings: Settings, corrected: Corrected, said: Floats32
    ) -> Row:
        trained, facts, shifts = self._trained, self._facts, corrected.shifts
        counted = ClassScores(trained.n_seen).update(said, self._test.labels)
        # Classes that have no training images left are in none of the groups.
        by_count = counted.groups(trained.counts) if trained.counts.all() else {}
        return Row(
            cell=settings.name, learner=trained.config.learner.name, corrector=name, evidence=plan, seed=settings.seed,
            step=trained.number, n_steps=settings.n_steps, n_old=trained.n_old, n_new=trained.sizes[-1],
            overall=counted.accuracy, top5=counted.top_k_accuracy, many=_or_none(by_count.get("many")),
            medium=_or_none(by_count.get("medium")), few=_or_none(by_count.get("few")),
            old=_or_none(_pooled(counted, slice(trained.n_old))),
            new=_pooled(counted, slice(trained.n_old, trained.n_seen)),
            groups=tuple(_pooled(counted, group) for group in trained.groups), per_class=_listed(counted.per_class),
            counts=tuple(trained.counts.tolist()),
            shifts=None if shifts is None else _listed(shifts.values),
            standard_errors=None if shifts is None else _listed(shifts.standard_errors),
            energies_before=_of(shifts, "energies"), energies_after=_of(shifts, "aligned_energies"),
            effective_samples=_of(shifts, "effective_samples"),
            estimator=None if shifts is None else shifts.estimator,
            clusters=None if shifts is None else shifts.clusters.name,
            n_clusters=None if shifts is None else shifts.clusters.n_clusters,
            concerns=(*(() if shifts is None else shifts.concerns), *corrected.concerns),
            details=dict(corrected.details), memory=facts.memory, fed_back=facts.fed_back, order=facts.order,
            manifest=facts.manifest, network_sha256=trained.network_sha256, config=settings, versions=versions(),
        )  # fmt: skip


def versions() -> Mapping[str, str]:
    """Of everything that numbers may depend on."""
    import torch
    import torchvision

    return {
        "energyalign": energyalign.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
    }


def _of(shifts: Shifts | None, name: str) -> Numbers | None:
    values = None if shifts is None else getattr(shifts, name)
    return None if values is None else _listed(values)


def _listed(values: npt.NDArray[np.float64]) -> Numbers:
    """JSON has no NaN: what was not measured is missing."""
    return tuple(map(_or_none, values.tolist()))


def _or_none(value: float | None) -> float | None:
    return None if value is None or np.isnan(value) else value


def _pooled(scores: ClassScores, classes: slice) -> float:
    """Share of the test images of these classes that were predicted right, all in one pool; NaN if there are none."""
    total = int(scores.total[classes].sum())
    return float(scores.right[classes].sum() / total) if total else float("nan")
