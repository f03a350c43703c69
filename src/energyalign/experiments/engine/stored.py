"""Runs on disk: their rows, stored logits, and how they were made."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.manifest import Manifest
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.row import Row, Settings, natural
from energyalign.experiments.train.run_directory import RunDirectory
from energyalign.experiments.train.tensor_file import load_arrays

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]

DEFAULT_EVIDENCE = EvidencePlan()


def step_folder(run: Path, step: int, *, in_steps: bool = True) -> Path:
    """Where the files of a step are; of a long tail, which has one, in the folder of the run."""
    return run / f"step-{step:02d}" if in_steps else run


def logits_file(folder: Path) -> Path:
    """The logits of the test images after the step of a folder, of the network as trained, and their labels."""
    return folder / "test_logits.safetensors"


def predictions_file(folder: Path, corrector: str, plan: EvidencePlan | None) -> Path:
    """The predicted class of each test image in a row."""
    name = corrector if plan is None else f"{corrector}-{plan.policy}-{plan.per_class}"
    return folder / "predictions" / f"{name}.safetensors"


def read_rows(run: RunDirectory) -> list[Row]:
    """The rows of a run so far, in the order of their keys."""
    path = run.path / "rows.jsonl"
    rows = [Row.from_json(value, f"{path}, line {line},") for line, value in enumerate(run.read_rows(), 1)]
    return sorted(rows, key=lambda row: row.key)


def store_row(run: RunDirectory, row: Row) -> None:
    """Put the row in the place of the one that the run may have of its key already; rows are in the order of keys."""
    if not run.writes:
        return
    with run.saving() as folder:
        stored = RunDirectory(folder)
        others = [other for other in read_rows(stored) if other.key != row.key]
        stored.write_rows([each.to_json() for each in sorted([*others, row], key=lambda each: each.key)])


class Outputs(NamedTuple):
    """What the raw network said of the test images."""

    logits: NDArray[np.float32]
    labels: Ints

    def shifted(self, shifts: Sequence[float | None]) -> NDArray[np.float32]:
        """The logits with a number added for each class, in single precision as the network does it."""
        return self.logits + np.array(shifts, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class StoredRun:
    """One training, as it is on disk.

    Attributes
    ----------
    path : Path
    config : Settings
        Of config.json.
    rows : list of Row
        Empty while nothing was measured yet.
    """

    path: Path
    config: Settings
    rows: list[Row]

    @property
    def in_steps(self) -> bool:
        """Whether its classes came in steps; of a long tail otherwise."""
        return self.config.in_steps

    @property
    def n_steps(self) -> int:
        """How often classes come; 1 for a long tail."""
        return self.config.n_steps

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
        return np.array(self.rows_at(step)[0].counts)

    def rows_at(self, step: int | None = None) -> list[Row]:
        """The rows after a step, by default the last one that was measured."""
        last = max((row.step for row in self.rows), default=1)
        return [row for row in self.rows if row.step == (last if step is None else step)]

    def row_of(self, corrector: str, step: int | None = None) -> Row | None:
        """The row under a corrector after a step; None if it was not measured.

        Of several kinds of evidence the one that `of_one_plan` takes.
        """
        taken, _ = of_one_plan([row for row in self.rows_at(step) if row.corrector == corrector])
        return taken[0] if taken else None

    def outputs(self, step: int | None = None) -> Outputs:
        """The logits of the raw network for the test images after a step, by default the last one measured."""
        arrays = _load(logits_file(self._folder(self.rows_at(step)[0].step)), "logits", "labels")
        return Outputs(arrays["logits"].astype(np.float32), arrays["labels"])

    def predictions(self, row: Row) -> Ints:
        """The predicted class of each test image in one of its rows.

        Published runs leave the file out where logits and shifts give the same predictions.
        """
        path = predictions_file(self._folder(row.step), row.corrector, row.evidence)
        if row.shifts is not None and not path.exists():
            return np.asarray(self.outputs(row.step).shifted(row.shifts).argmax(axis=1))
        return _load(path, "predictions")["predictions"].astype(np.int64)

    def _folder(self, step: int) -> Path:
        return step_folder(self.path, step, in_steps=self.in_steps)


def of_one_plan(rows: Sequence[Row]) -> tuple[list[Row], list[str]]:
    """Those of the default kind of evidence, or of the first one; and the kinds left out.

    Tables, figures and pages choose among the rows of a corrector with this, so that they agree.
    """
    plans = list(dict.fromkeys(row.evidence for row in rows))
    taken = DEFAULT_EVIDENCE if DEFAULT_EVIDENCE in plans else next(iter(plans), None)
    left_out = [str(plan or "none") for plan in plans if plan != taken]
    return [row for row in rows if row.evidence == taken], left_out


class ResultRows(tuple[Row, ...]):
    """Rows of any runs, in their order."""

    __slots__ = ()

    def to_frame(self) -> pandas.DataFrame:
        """A data frame with a line for each row: what was run, its accuracies, its settings."""
        import pandas

        return pandas.DataFrame([_line(row) for row in self])


def load_rows(*paths: str | Path) -> ResultRows:
    """The rows of run directories, or of folders with some in them at any depth.

    Parameters
    ----------
    *paths : path
        Folders that `energyalign longtail`, `incremental`, `sweep` or `demo` wrote, or results/ of this repository.

    Examples
    --------
    >>> frame = load_rows("runs").to_frame()  # doctest: +SKIP
    """
    return ResultRows(row for run in measured_runs(paths) for row in run.rows)


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
            found.setdefault(folder.resolve(), StoredRun(folder, config, read_rows(RunDirectory(folder))))
    return list(found.values())


def measured_runs(paths: Sequence[str | Path]) -> list[StoredRun]:
    """Those of `find_runs` that have rows; an error if none has."""
    found = find_runs(paths)
    measured = [run for run in found if run.rows]
    if not measured:
        raise EnergyAlignError(f"{found[0].path} has no rows yet: run the command that began it to its end first.")
    return measured


def _run_folders(path: Path) -> dict[Path, Settings]:
    """Folders with a config.json of ours, and what is in it; what is below one belongs to it."""
    folders = {}
    for place, below, files in os.walk(path):
        config = RunDirectory(Path(place)).read_json("config.json") if "config.json" in files else None
        if config is not None and config.get("kind") in ("LongTailConfig", "IncrementalConfig"):
            try:
                folders[Path(place)] = Settings(config)
            except ValueError as error:
                raise EnergyAlignError(
                    f"{Path(place) / 'config.json'} is of another version, or was changed: {error}. Run the command "
                    "that made it again, in another folder."
                ) from error
            below.clear()
        below.sort(key=natural)
    return folders


def _load(path: Path, *names: str) -> dict[str, NDArray[Any]]:
    """The arrays of a file, which must have these."""
    arrays = load_arrays(path)
    if not set(names) <= arrays.keys():
        raise EnergyAlignError(f"{path} does not hold {' and '.join(names)}. Run the command that made it again.")
    return arrays


def _line(row: Row) -> dict[str, Any]:
    lists = ("per_class", "counts", "test_counts", "shifts", "standard_errors", "energies_before", "energies_after",
             "effective_samples", "groups", "order", "details", "config", "versions", "environments",
             "evidence")  # fmt: skip
    plan = row.evidence
    line = {item.name: getattr(row, item.name) for item in fields(row) if item.name not in lists}
    line["standard_error"] = row.standard_error
    line["concerns"] = "; ".join(row.concerns)
    line["evidence.policy"] = None if plan is None else plan.policy
    line["evidence.per_class"] = None if plan is None else plan.per_class
    for name in ("dataset", "head", "backbone"):
        line[f"config.{name}"] = row.config.values.get(name)
    return line | {"config.epochs": row.config.epochs}
