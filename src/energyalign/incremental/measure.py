"""A step on the test images of all classes seen."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from energyalign.core.errors import EnergyAlignError
from energyalign.data.images import ImageSet
from energyalign.data.manifest import Manifest
from energyalign.experiment.outputs import Floats32
from energyalign.experiment.rows import Row, versions
from energyalign.incremental.after_step import AfterStep
from energyalign.incremental.correctors import Corrected
from energyalign.incremental.rows import confusion_file, make_row, row_key, save_confusion
from energyalign.incremental.step import Step
from energyalign.incremental.stream import ClassStream
from energyalign.train.tensor_file import load_arrays, save_arrays


def logits_file(step: Step) -> Path:
    """Where the logits of the test images are, of the network as trained."""
    return step.folder / "test_logits.safetensors"


class Measure:
    """Passes over the test images once, whatever the number of heads, and not at all if there is none to measure."""

    def __init__(self, after: AfterStep, stream: ClassStream, manifest: Manifest) -> None:
        self._after, self._stream, self._manifest = after, stream, manifest

    @cached_property
    def _test(self) -> ImageSet:
        return self._stream.test_images(self._after.step.number)

    @cached_property
    def _features(self) -> Floats32:
        """Of the test images; the logits of the network as trained go to a file on the way."""
        after = self._after
        features = after.features(self._test)
        if after.step.run.writes:
            logits = after.scores(after.network.head, features)
            save_arrays(logits_file(after.step), {"logits": logits, "labels": self._test.labels})
        return features

    def known(self, about: Row, stored: Mapping[Any, Row]) -> Row | None:
        """The row of an earlier process, if it is of this very network and all its files are there."""
        after, row = self._after, stored.get(row_key(about))
        if row is None or not (self._logits_are_whole and self._is_whole(confusion_file(after.step.run.path, about))):
            return None
        is_same = (row.get("network_sha256"), row["versions"]) == (after.network_sha256, versions())
        return row if is_same else None

    @cached_property
    def _logits_are_whole(self) -> bool:
        return self._is_whole(logits_file(self._after.step))

    def _is_whole(self, path: Path) -> bool:
        """Whether the file is there and can be read; a damaged one is told, and will be written again."""
        if not path.exists():
            return False
        try:
            load_arrays(path)
        except EnergyAlignError as error:
            self._after.step.reporter.note(f"Measuring step {self._after.step.number} again: {error}")
            return False
        return True

    def row(self, about: Row, corrected: Corrected) -> Row:
        """The result of a head; its confusion matrix goes to a file."""
        step = self._after.step
        scores = self._after.scores(corrected.head, self._features)
        if step.run.writes:
            save_confusion(step.run.path, about, scores, self._test)
        return make_row(self._after, self._stream, self._manifest, corrected, scores=scores, test=self._test)
