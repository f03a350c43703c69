"""Stored runs: their rows, logits and predictions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from energyalign.core._engine.largest import largest_corrected
from energyalign.core.arrays import Floats, Ints
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.manifest import Manifest
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.row import Row, Settings, natural
from energyalign.experiments.train.run_directory import RunDirectory
from energyalign.experiments.train.tensor_file import load_arrays

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]


def step_folder(run: Path, step: int, *, in_steps: bool = True) -> Path:
    """Return the folder of a step; for a long tail, the folder of the run."""
    return run / f"step-{step:02d}" if in_steps else run


def logits_file(folder: Path) -> Path:
    """Return the file with the logits of the trained network for the test images, and their labels."""
    return folder / "test_logits.safetensors"


def predictions_file(folder: Path, corrector: str, plan: EvidencePlan | None) -> Path:
    """Return the file with the predicted class of each test image."""
    name = corrector if plan is None else f"{corrector}-{plan.policy}-{plan.per_class}"
    return folder / "predictions" / f"{name}.safetensors"


def read_rows(run: RunDirectory) -> list[Row]:
    """Read the rows of a run."""
    path = run.path / "rows.jsonl"
    return [Row.from_json(value, f"{path}, line {line},") for line, value in enumerate(run.read_rows(), 1)]


def store_row(run: RunDirectory, row: Row) -> None:
    """Add a row to the rows of a run, or replace the row with the same key; rows stay sorted by key."""
    if not run.writes:
        return
    with run.saving() as folder:
        stored = RunDirectory(folder)
        others = [other for other in read_rows(stored) if other.key != row.key]
        stored.write_rows([row.to_json() for row in sorted([*others, row], key=lambda row: row.key)])


class Outputs(NamedTuple):
    """Logits of the raw network for the test images, and their labels."""

    logits: NDArray[np.float32]
    labels: Ints

    def shifted(self, shifts: Sequence[float | None] | Floats) -> NDArray[np.float32]:
        """Return the logits plus shifts, in single precision like the network."""
        return self.logits + np.array(shifts, dtype=np.float32)

    def predictions(self, shifts: Sequence[float | None] | Floats) -> Ints:
        """Return the class with the largest shifted logit of each image."""
        classes, _ = largest_corrected(self.logits, np.array(shifts, dtype=np.float32))
        return classes


@dataclass(frozen=True, eq=False)
class StoredRun:
    """One run on disk.

    Attributes
    ----------
    path : Path
    config : Settings
    rows : list of Row
        Empty if nothing was measured yet.
    """

    path: Path
    config: Settings
    rows: list[Row]

    @property
    def in_steps(self) -> bool:
        """Whether the run is class-incremental; otherwise it is long-tailed."""
        return self.config.in_steps

    @property
    def n_steps(self) -> int:
        """Number of steps; 1 for a long tail."""
        return self.config.n_steps

    @property
    def commands(self) -> list[str]:
        """The command lines of the run, oldest first; none if it was started from Python."""
        return RunDirectory(self.path).read_commands()

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest of the run."""
        return Manifest.load(self.path / "manifest.json")

    @property
    def class_names(self) -> tuple[str, ...]:
        """Class names in the order of the logits' columns: the order of arrival if classes come in steps."""
        return self.manifest.class_names

    def counts(self, step: int | None = None) -> Ints:
        """Return the number of training images of each class in a step (default: the last one measured)."""
        return np.array(self.rows_at(step)[0].counts)

    def rows_at(self, step: int | None = None) -> list[Row]:
        """Return the rows of a step (default: the last one measured)."""
        last = max((row.step for row in self.rows), default=1)
        return [row for row in self.rows if row.step == (last if step is None else step)]

    def row_of(self, corrector: str, step: int | None = None) -> Row | None:
        """Return the row of a corrector after a step, or None; `of_one_plan` chooses among kinds of evidence."""
        taken, _ = of_one_plan([row for row in self.rows_at(step) if row.corrector == corrector])
        return taken[0] if taken else None

    def outputs(self, step: int | None = None) -> Outputs:
        """Return logits and labels of the test images after a step (default: the last one measured).

        The arrays are shared with later calls, and read-only.
        """
        path = logits_file(self._folder(self.rows_at(step)[0].step))
        return _read_outputs(path, _state(path))

    def predictions(self, row: Row) -> Ints:
        """Return the predicted class of each test image in one of the rows.

        In published runs, predictions that can be computed from logits and shifts have no file.
        """
        path = predictions_file(self._folder(row.step), row.corrector, row.evidence)
        if row.shifts is not None and not path.exists():
            return self.outputs(row.step).predictions(row.shifts)
        return _load(path, "predictions")["predictions"].astype(np.int64)

    def _folder(self, step: int) -> Path:
        return step_folder(self.path, step, in_steps=self.in_steps)


def default_plan(row: Row) -> EvidencePlan:
    """Return the evidence plan that is used on the row's data set if none is given."""
    return EvidencePlan.default_for(str(row.config.values.get("dataset", "")))


def of_one_plan(rows: Sequence[Row]) -> tuple[list[Row], list[str]]:
    """Return the rows with one kind of evidence, and the plans left out.

    The chosen plan is the default of the data set, or else the first with the default policy, or else the first.
    Tables, figures and pages all choose among the rows of a corrector with this function.
    """
    plans = {row.evidence: row.evidence_key for row in rows}
    if not plans:
        return [], []
    default = default_plan(rows[0])
    alike = [plan for plan in plans if plan and plan.policy == default.policy]
    chosen = default if default in plans else next(iter(alike or plans))
    left_out = [str(plan or "none") for plan in sorted(plans, key=lambda plan: plans[plan]) if plan != chosen]
    return [row for row in rows if row.evidence == chosen], left_out


class ResultRows(tuple[Row, ...]):
    """Rows of one or more runs."""

    __slots__ = ()

    def to_frame(self) -> pandas.DataFrame:
        """Return a data frame with a line for each row: what was run, its accuracies, its settings."""
        import pandas

        return pandas.DataFrame([_to_record(row) for row in self])


def load_rows(*paths: str | Path) -> ResultRows:
    """Load the rows of run directories, or of all run directories below some folders.

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
    """Return the runs in these folders, which are run directories or contain some at any depth, sorted by path."""
    found: dict[Path, StoredRun] = {}
    for path in map(Path, paths):
        folders = _run_folders(path)
        if not folders:
            problem = "there is no run in it" if path.is_dir() else "there is no such folder"
            raise EnergyAlignError(
                f"{path}: {problem}. Give folders that energyalign longtail or energyalign incremental made."
            )
        for folder, config in folders.items():
            rows = read_rows(RunDirectory(folder))
            if any(row.config != config for row in rows):
                raise EnergyAlignError(
                    f"{folder / 'config.json'} was changed after the run: its rows have other settings. Restore the "
                    "original, or run the command that made it again, in another folder."
                )
            found.setdefault(folder.resolve(), StoredRun(folder, config, rows))
    return list(found.values())


def measured_runs(paths: Sequence[str | Path]) -> list[StoredRun]:
    """Return the runs of `find_runs` that have rows; raise if none has."""
    found = find_runs(paths)
    measured = [run for run in found if run.rows]
    if not measured:
        raise EnergyAlignError(f"{found[0].path} has no rows yet: finish the run with the command that began it.")
    return measured


def _run_folders(path: Path) -> dict[Path, Settings]:
    """Return the run directories below a folder, with their settings; folders inside a run directory belong to it."""
    folders = {}
    for place, below, files in os.walk(path):
        config = RunDirectory(Path(place)).read_json("config.json") if "config.json" in files else None
        if config is not None and config.get("kind") in ("LongTailConfig", "IncrementalConfig"):
            try:
                folders[Path(place)] = Settings(config)
            except ValueError as error:
                raise EnergyAlignError(
                    f"{Path(place) / 'config.json'} was changed, or is from another version: {error}. Run the "
                    "command that made this folder again, in another folder."
                ) from error
            below.clear()
        below.sort(key=natural)
    return folders


@lru_cache(maxsize=4)
def _read_outputs(path: Path, state: tuple[int, ...]) -> Outputs:  # noqa: ARG001 - a changed file is read again
    """Read logits and labels; the figures of a page ask for the same ones a dozen times."""
    arrays = _load(path, "logits", "labels")
    outputs = Outputs(arrays["logits"].astype(np.float32, copy=False), arrays["labels"])
    for array in outputs:
        array.flags.writeable = False
    return outputs


def _state(path: Path) -> tuple[int, ...]:
    """Return what differs once a file is replaced or changed; empty if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _load(path: Path, *names: str) -> dict[str, NDArray[Any]]:
    """Load a file that must have these arrays."""
    arrays = load_arrays(path)
    if not set(names) <= arrays.keys():
        raise EnergyAlignError(f"{path} does not hold {' and '.join(names)}. Run the command that made it again.")
    return arrays


def _to_record(row: Row) -> dict[str, Any]:
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
