"""Run directories as the report reads them: rows, stored logits, and how they were made."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError
from energyalign.data.manifest import Manifest
from energyalign.experiment.evidence import EvidencePlan
from energyalign.experiment.rows import Row
from energyalign.report.row_check import check_config, check_row
from energyalign.train.describe import described
from energyalign.train.run_directory import RunDirectory
from energyalign.train.tensor_file import load_arrays

DEFAULT_EVIDENCE: Row = described(EvidencePlan())


class Outputs(NamedTuple):
    """What the raw network said of the test images."""

    logits: NDArray[np.float32]
    labels: Ints


@dataclass(frozen=True, eq=False)
class StoredRun:
    """One training, as it is on disk.

    Attributes
    ----------
    path : Path
    config : dict
        Of config.json.
    rows : list of dict
        Empty while nothing was measured yet.
    """

    path: Path
    config: dict[str, Any]
    rows: list[Row]

    def checked(self) -> Self:
        """The same, or an error if it has not what is read of it here and elsewhere."""
        check_config(self.config, self.path / "config.json", in_steps=self.is_incremental)
        for row in self.rows:
            check_row(row, self.path / "rows.jsonl", in_steps=self.is_incremental)
        return self

    @property
    def is_incremental(self) -> bool:
        """Whether its classes came in steps; of a long tail otherwise."""
        return bool(self.config["kind"] == "IncrementalConfig")

    @property
    def n_steps(self) -> int:
        """How often classes come; 1 for a long tail."""
        return int(self.config["n_steps"]) if self.is_incremental else 1

    @property
    def commands(self) -> list[str]:
        """The command lines that made it, oldest first; none for a run that was made from Python."""
        return RunDirectory(self.path).read_commands()

    @cached_property
    def manifest(self) -> Manifest:
        """The record of its images."""
        return Manifest.load(self.path / "manifest.json")

    @property
    def class_names(self) -> tuple[str, ...]:
        """In the order of the logits' columns: of arrival, if they came in steps."""
        return self.manifest.class_names

    def counts(self, step: int | None = None) -> Ints:
        """Training images of each class, in the last step that was measured or in that one."""
        return np.array(self.rows_at(step)[0]["counts"])

    def rows_at(self, step: int | None = None) -> list[Row]:
        """The rows after a step, by default the last one that was measured; of a long tail all of them."""
        if not self.is_incremental or not self.rows:
            return self.rows
        wanted = max(row["step"] for row in self.rows) if step is None else step
        return [row for row in self.rows if row["step"] == wanted]

    def row_of(self, corrector: str, step: int | None = None) -> Row | None:
        """The row under a corrector after a step; None if it was not measured.

        Of several kinds of evidence the default one, if it is among them.
        """
        rows = [row for row in self.rows_at(step) if row["corrector"] == corrector]
        return min(rows, key=lambda row: row.get("evidence") not in (None, DEFAULT_EVIDENCE), default=None)

    def outputs(self, step: int | None = None) -> Outputs:
        """The logits of the raw network for the test images after a step, by default the last one measured."""
        folder = self.path / f"step-{self.rows_at(step)[0]['step']:02d}" if self.is_incremental else self.path
        path = folder / "test_logits.safetensors"
        arrays = load_arrays(path)
        if not {"logits", "labels"} <= arrays.keys():
            raise EnergyAlignError(f"{path} does not hold logits and labels. Run the command that made it again.")
        return Outputs(arrays["logits"], arrays["labels"])


def find_runs(paths: Sequence[str | Path]) -> list[StoredRun]:
    """The runs in these folders, which are run directories or hold some at any depth; in the order of their paths."""
    found: dict[Path, StoredRun] = {}
    for path in map(Path, paths):
        folders = _run_folders(path)
        if not folders:
            problem = "there is no run in it" if path.is_dir() else "there is no such folder"
            raise EnergyAlignError(
                f"{path}: {problem}. Give folders that energyalign longtail or energyalign incremental made."
            )
        for folder, config in folders.items():
            found.setdefault(folder.resolve(), StoredRun(folder, config, RunDirectory(folder).read_rows()))
    return list(found.values())


def measured_runs(paths: Sequence[str | Path]) -> list[StoredRun]:
    """Those of `find_runs` that have rows; an error if none has."""
    found = find_runs(paths)
    measured = [run.checked() for run in found if run.rows]
    if not measured:
        raise EnergyAlignError(f"{found[0].path} has no rows yet: run the command that began it to its end first.")
    return measured


def _run_folders(path: Path) -> dict[Path, dict[str, Any]]:
    """Folders with a config.json of ours, and what is in it; what is below one belongs to it."""
    folders = {}
    for place, below, files in os.walk(path):
        config = RunDirectory(Path(place)).read_json("config.json") if "config.json" in files else None
        if config is not None and config.get("kind") in ("LongTailConfig", "IncrementalConfig"):
            folders[Path(place)] = config
            below.clear()
        below.sort()
    return folders
