"""Measure a corrected network on the test images, and make its row."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torchvision

import energyalign
from energyalign.core.calibration import measure_calibration
from energyalign.core.errors import EnergyAlignError
from energyalign.core.metrics import ClassScores
from energyalign.core.objectives import METRICS
from energyalign.core.shifts import Shifts
from energyalign.experiments.correctors.base import Corrected
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.outputs import Floats32, for_inference
from energyalign.experiments.engine.row import Numbers, Row, Settings
from energyalign.experiments.engine.stored import logits_file, predictions_file, step_folder
from energyalign.experiments.engine.trained import Trained
from energyalign.experiments.train.tensor_file import load_arrays, save_arrays

_OF_SHIFTS = {
    "shifts": "values", "standard_errors": "standard_errors", "energies_before": "energies",
    "energies_after": "aligned_energies", "effective_samples": "effective_samples",
}  # fmt: skip

# Other packages on which numbers may depend: they decode images, define backbones, and fit shifts.
_DECODE_AND_FIT = ("pillow", "simplejpeg", "timm", "scipy", "numba")


class RunFacts(NamedTuple):
    """Fields of `Row` that describe the run but are not in its config; `manifest` is the SHA-256 of the manifest."""

    manifest: str
    memory: str | None = None
    fed_back: str | None = None
    order: tuple[int, ...] | None = None


class Measurement:
    """Measures correctors behind one trained network. Nothing else in an experiment sees test images.

    The backbone passes over the test images once for all correctors, and not at all if every row is known already.
    """

    def __init__(self, trained: Trained, test: ImageSet, facts: RunFacts) -> None:
        self._trained, self._test, self._facts = trained, test, facts

    def find_row(self, corrector: str, plan: EvidencePlan | None, stored: Sequence[Row]) -> Row | None:
        """Return the stored row of this network and these versions, if its files are there and undamaged."""
        trained, key = self._trained, (self._trained.number, corrector, plan)
        row = next((row for row in stored if (row.step, row.corrector, row.evidence) == key), None)
        if row is None or (row.network_sha256, row.versions) != (trained.network_sha256, versions()):
            return None
        folder = self._folder_in(trained.run.path)
        files = (logits_file(folder), predictions_file(folder, corrector, plan))
        return row if all(map(self._is_readable, files)) else None

    def measure(self, corrector: str, plan: EvidencePlan | None, corrected: Corrected) -> Row:
        """Save the predictions of a corrected network and return its row."""
        scores = self._score(corrected)
        if self._trained.run.writes:
            with self._trained.run.saving() as run:
                path = predictions_file(self._folder_in(run), corrector, plan)
                path.parent.mkdir(exist_ok=True)
                save_arrays(path, {"predictions": scores.argmax(axis=1).astype(np.uint16)})
        return self._make_row(corrector, plan, corrected, scores)

    def _score(self, corrected: Corrected) -> Floats32:
        features, network = self._features, corrected.network
        if network.backbone is not self._trained.network.backbone:
            return self._trained.features(self._test, for_inference(network))
        return self._trained.scores(network.head, features)

    @cached_property
    def _features(self) -> Floats32:
        """Features of the test images. Computing them also saves the logits of the network as trained."""
        trained = self._trained
        features = trained.features(self._test)
        if trained.run.writes:
            logits = trained.scores(trained.network.head, features)
            with trained.run.saving() as run:
                save_arrays(logits_file(self._folder_in(run)), {"logits": logits, "labels": self._test.labels})
        return features

    def _folder_in(self, run: Path) -> Path:
        return step_folder(run, self._trained.number, in_steps=self._trained.config.in_steps)

    def _is_readable(self, path: Path) -> bool:
        """Return whether the file exists and is undamaged; report a damaged file, which will be written again."""
        if not path.exists():
            return False
        try:
            load_arrays(path)
        except EnergyAlignError as error:
            self._trained.reporter.note(f"Measuring step {self._trained.number} again: {error}")
            return False
        return True

    def _make_row(self, corrector: str, plan: EvidencePlan | None, corrected: Corrected, scores: Floats32) -> Row:
        trained, labels, settings = self._trained, self._test.labels, Settings(self._trained.config.to_json())
        counted = ClassScores(trained.n_seen).update(scores, labels)
        predictions, weights = scores.argmax(axis=1), np.ones(len(labels))
        calibration = measure_calibration(scores, labels) if corrected.gives_logits else None
        counts = trained.counts
        if trained.held_out is not None and not trained.config.in_steps:  # the groups follow the counts of the cell
            counts = counts + np.bincount(trained.held_out.labels, minlength=trained.n_seen)
        # Without training images of some class, the groups by count would leave it out.
        by_count = counted.groups(counts) if counts.all() else {}
        concerns = () if corrected.shifts is None else corrected.shifts.concerns
        return Row(
            cell=settings.name, learner=trained.config.learner.name, corrector=corrector, evidence=plan,
            seed=settings.seed, step=trained.number, n_steps=settings.n_steps, n_old=trained.n_old,
            n_new=trained.n_new, balanced=counted.balanced_accuracy, overall=counted.accuracy,
            macro_f1=METRICS["f1_macro"].score(labels, predictions, weights, scores.shape[1]),
            ece=None if calibration is None else _finite_or_none(calibration.ece),
            nll=None if calibration is None else _finite_or_none(calibration.nll),
            brier=None if calibration is None else _finite_or_none(calibration.brier),
            top5=counted.balanced_top_k_accuracy, many=_finite_or_none(by_count.get("many")),
            medium=_finite_or_none(by_count.get("medium")), few=_finite_or_none(by_count.get("few")),
            old=_finite_or_none(counted.mean_over(slice(trained.n_old))),
            new=counted.mean_over(slice(trained.n_old, trained.n_seen)),
            groups=tuple(map(counted.mean_over, trained.groups)), per_class=_to_numbers(counted.per_class),
            counts=tuple(counts.tolist()), test_counts=tuple(counted.total.tolist()),
            details=dict(corrected.details), concerns=(*concerns, *corrected.concerns),
            network_sha256=trained.network_sha256, config=settings, versions=versions(),
            environments=tuple(trained.run.read_environments()), **_fields_of(corrected.shifts),
            **self._facts._asdict(),
        )  # fmt: skip


def versions() -> Mapping[str, str]:
    """Return the versions that numbers may depend on."""
    return {
        "energyalign": energyalign.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
    }


def environment(device: torch.device) -> dict[str, Any]:
    """Return the versions, and everything else that the last digits of numbers depend on."""
    is_cuda = device.type == "cuda"
    return {
        **versions(),
        **dict(_installed(_DECODE_AND_FIT)),
        "device": torch.cuda.get_device_name(device) if is_cuda else device.type,
        "cpu": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()} {_processor()}".strip(),
        "threads": torch.get_num_threads(),
    }


def _installed(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the names and versions of these packages, if they are installed."""
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            yield name, version(name)


def _processor() -> str:
    """Return the name of the processor, if the system tells it: libraries choose their loops by it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()  # Linux
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _fields_of(shifts: Shifts | None) -> dict[str, Any]:
    """Return the fields of a row about shifts: all None for a corrector that does more than add a number per class."""
    if shifts is None:
        return dict.fromkeys([*_OF_SHIFTS, "estimator", "clusters", "n_clusters"])
    values = {field: getattr(shifts, name) for field, name in _OF_SHIFTS.items()}
    numbers = {field: None if value is None else _to_numbers(value) for field, value in values.items()}
    clusters = {"clusters": shifts.clusters.name, "n_clusters": shifts.clusters.n_clusters}
    return numbers | clusters | {"estimator": shifts.estimator}


def _to_numbers(values: npt.NDArray[np.float64]) -> Numbers:
    """Convert an array for JSON, which has no NaN: None stands for what was not measured."""
    return tuple(map(_finite_or_none, values.tolist()))


def _finite_or_none(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else value
