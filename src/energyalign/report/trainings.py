"""Trainings: stored runs that differ only in the seed, their names, progress and scores."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from energyalign.core.arrays import Ints
from energyalign.core.errors import count_of
from energyalign.core.metrics import ClassScores
from energyalign.experiments.engine.row import Row
from energyalign.experiments.engine.stored import Outputs, StoredRun, of_one_plan
from energyalign.report.tables.order import corrector_key

AS_TRAINED, ALIGNED = "raw", "ea"
"""Correctors of the raw network and of energy aligning as in the paper."""
Facet = Callable[[StoredRun], str]
_MAX_LENGTH = 24
_CHECKPOINT = re.compile(r"epoch-(\d+)-batch-(\d+)\.safetensors")


@dataclass(frozen=True)
class Training:
    """The runs of one training, one for each seed, after the last step that all of them have.

    Attributes
    ----------
    label : str
        Name that distinguishes it from other trainings.
    runs : tuple of StoredRun
    """

    label: str
    runs: tuple[StoredRun, ...]

    @property
    def cell(self) -> str:
        """Data and protocol, for example ``digits-lt-50``."""
        return str(self.runs[0].config.name)

    @property
    def in_steps(self) -> bool:
        """Whether classes come in steps."""
        return self.runs[0].in_steps

    @property
    def step(self) -> int | None:
        """The last step that all seeds have; None for a long tail."""
        return min(max(row.step for row in run.rows) for run in self.runs) if self.in_steps else None

    @property
    def counts(self) -> Ints:
        """Training images of each class, the same for every seed."""
        return self.runs[0].counts(self.step)

    @property
    def n_old(self) -> int:
        """Number of classes before `step`; 0 for a long tail."""
        return int(self.runs[0].rows_at(self.step)[0].n_old) if self.in_steps else 0

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes seen so far."""
        return self.runs[0].class_names[: len(self.counts)]

    @property
    def correctors(self) -> list[str]:
        """Names of the correctors that have rows, sorted."""
        return sort_correctors({row.corrector for run in self.runs for row in run.rows_at(self.step)})

    def measured(self, corrector: str) -> list[tuple[StoredRun, Row]]:
        """Return the runs that have a row of a corrector, with that row; all rows have the same kind of evidence."""
        pairs = [(run, row) for run in self.runs for row in run.rows_at(self.step) if row.corrector == corrector]
        taken, _ = of_one_plan([row for _, row in pairs])
        return [(run, row) for run, row in pairs if row.evidence == taken[0].evidence]

    def shared_by(self, *correctors: str) -> Training:
        """Return the training with only the seeds that have rows of all these correctors."""
        seeds = [{row.seed for row in self.rows_of(corrector)} for corrector in correctors]
        return Training(self.label, tuple(run for run in self.runs if all(run.config.seed in of for of in seeds)))

    def rows_of(self, corrector: str) -> list[Row]:
        """Return the row of this corrector for each seed that has it."""
        return [row for _, row in self.measured(corrector)]

    def percentages(self, corrector: str, columns: Sequence[str]) -> NDArray[np.float64]:
        """Return accuracies in percent, of shape (runs, columns); NaN for groups without classes."""
        rows = self.rows_of(corrector)
        values = np.array([[row.accuracy(column) for column in columns] for row in rows], dtype=np.float64)
        return 100.0 * values.reshape(len(rows), len(columns))


def sort_correctors(names: Iterable[str]) -> list[str]:
    """Sort correctors in the order that all lines and panels have; see `corrector_key`."""
    return sorted(names, key=corrector_key)


def by_setting(runs: Sequence[StoredRun]) -> list[tuple[StoredRun, ...]]:
    """Group runs that differ only in the seed, in the given order; a repeated seed counts once."""
    grouped: dict[str, dict[int, StoredRun]] = {}
    for run in runs:
        grouped.setdefault(setting(run), {}).setdefault(run.config.seed, run)
    return [tuple(by_seed.values()) for by_seed in grouped.values()]


def name_in_full(runs: Sequence[StoredRun]) -> list[Training]:
    """Return trainings with full names; equal names are extended by the settings in which the trainings differ."""
    groups = by_setting(runs)
    names = [(seeds[0].config.name, _full_name(seeds[0])) for seeds in groups]
    trainings = []
    for name, seeds in zip(names, groups, strict=True):
        namesakes = [other for other, also in zip(groups, names, strict=True) if also == name]
        differs = _differences([other[0] for other in namesakes])[namesakes.index(seeds)]
        trainings.append(Training(", ".join(filter(None, [name[1], differs])), seeds))
    return trainings


def setting(run: StoredRun, *varied: str) -> str:
    """Return all settings as text except the seed and `varied`, which are keys of the config or of its recipe."""
    values = run.config.values
    recipe = {key: value for key, value in values["recipe"].items() if key not in varied}
    config = {key: value for key, value in values.items() if key not in ("seed", *varied)}
    return json.dumps({**config, "recipe": recipe}, sort_keys=True)


def optimizer_name(run: StoredRun) -> str:
    """Return the optimizer's kind, with or without momentum as in the paper."""
    optimizer = run.config.optimizer
    if "momentum" not in optimizer:
        return str(optimizer["kind"])
    return f"{optimizer['kind']} with{'' if optimizer['momentum'] else 'out'} momentum"


_COMMON: tuple[Facet, ...] = (
    lambda run: str(run.config.name),
    lambda run: str(run.rows[0].learner),
    lambda run: f"{run.config.head} head",
    lambda run: "" if run.config.backbone == "identity" else str(run.config.backbone),  # trained on features
)
_OTHERS: tuple[Facet, ...] = (
    lambda run: f"memory {run.rows[0].memory}" if run.in_steps else "",
    lambda run: f"fed back: {run.rows[0].fed_back}" if run.in_steps else "",
    lambda run: f"held out: {run.config.held_out:g}" if run.in_steps or run.config.held_out else "",
    optimizer_name,
    lambda run: count_of(run.config.epochs, "epoch"),
)


def _full_name(run: StoredRun) -> str:
    """Return a name that does not depend on other trainings: ``ce, cosine head``."""
    words = [facet(run) for facet in (*_COMMON[1:3], *(_OTHERS[:2] if run.in_steps else ()))]
    return printable(", ".join(words))


def labels_of(runs: Sequence[StoredRun]) -> list[str]:
    """Return the shortest label that distinguishes each training, given one run of each."""
    return [label or printable(run.rows[0].learner) for label, run in zip(_differences(runs), runs, strict=True)]


def _differences(runs: Sequence[StoredRun]) -> list[str]:
    """Return what distinguishes each training; empty for one without the setting that the others have."""
    labels: list[tuple[str, ...]] = [()] * len(runs)
    for facet in (*_COMMON, *_OTHERS, *_setting_facets(runs)):
        words = list(map(facet, runs))
        for same in set(labels):
            members = [index for index, label in enumerate(labels) if label == same]
            if len({words[index] for index in members}) > 1:
                for index in members:
                    labels[index] = (*labels[index], words[index])
    return [printable(", ".join(filter(None, label))) for label in labels]


def describe_common(runs: Sequence[StoredRun], seeds: Sequence[int], *others: str) -> str:
    """Describe what all runs have in common, given the number of seeds of each training."""
    words = [values.pop() for facet in _COMMON if len(values := {facet(run) for run in runs}) == 1]
    low, high = min(seeds), max(seeds)
    number = count_of(high, "seed") if low == high else f"{low} to {high} seeds"
    trainings = f"{len(seeds)} trainings" if len(seeds) > 1 else ""
    return printable(", ".join(filter(None, [*words, *others, trainings, number])))


def _setting_facets(runs: Sequence[StoredRun]) -> list[Facet]:
    """Return a facet for every other setting: ``lr 0.05``."""
    settings = {id(run): leaves_of(run.config.values) for run in runs}

    def facet(key: str) -> Facet:
        return lambda run: f"{key.rpartition('.')[2].replace('_', ' ')} {settings[id(run)].get(key, '-')}"

    return [facet(key) for key in sorted({key for leaves in settings.values() for key in leaves} - {"seed"})]


def leaves_of(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return every setting as text, by its path: ``recipe.optimizer.lr``."""
    leaves: dict[str, str] = {}
    for key, value in config.items():
        leaves |= leaves_of(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": str(value)}
    return leaves


def printable(text: str) -> str:
    """Replace characters that would break lines or an SVG file."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def shorten(text: str) -> str:
    """Make text printable, and cut it to the length that fits beside a panel."""
    text = printable(text)
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}\N{HORIZONTAL ELLIPSIS}"


def progress_of(run: StoredRun) -> str:
    """Return progress such as ``step 3 of 5, epoch 12 of 60``; empty once the last step has rows."""
    if run.rows and (not run.in_steps or run.rows_at()[0].step == run.n_steps):
        return ""
    done = run.rows_at()[0].step if run.rows else 0
    words = [f"step {done + 1} of {run.n_steps}"] if run.in_steps else []
    epoch = _epoch(run)
    words.append("nothing saved yet" if epoch is None else f"epoch {epoch} of {run.config.epochs}")
    return ", ".join(words)


def checkpoints_of(run: StoredRun) -> list[Path]:
    """Return the checkpoints of all stages, sorted by path."""
    return sorted(path for path in run.path.rglob("*.safetensors") if _CHECKPOINT.fullmatch(path.name))


def _epoch(run: StoredRun) -> int | None:
    """Return the epoch of the newest checkpoint of any stage, at most the last epoch; None without checkpoints."""
    newest = {path.parent: path.name for path in checkpoints_of(run)}  # by name: clocks can go backwards
    saved = []
    for folder, name in newest.items():
        with contextlib.suppress(FileNotFoundError):  # a running training deletes old checkpoints
            saved.append(((folder / name).stat().st_mtime_ns, name))
    if not saved:
        return None
    return min(int(max(saved)[1].split("-")[1]), int(run.config.epochs))


def corrected_outputs(run: StoredRun, row: Row) -> Outputs:
    """Return the raw logits plus the row's shifts, if it has any, in single precision."""
    outputs = run.outputs(row.step)
    return outputs if row.shifts is None else outputs._replace(logits=outputs.shifted(row.shifts))


def scores_by_strength(run: StoredRun, row: Row, strengths: Sequence[float]) -> list[ClassScores]:
    """Return the scores at each strength of the row's shifts."""
    outputs = run.outputs(row.step)
    labels, n_classes = outputs.labels, outputs.logits.shape[1]
    shifts = np.array(row.shifts)
    scores = []
    for strength in strengths:
        right = labels[outputs.predictions(strength * shifts) == labels]
        counted = ClassScores(n_classes)
        counted.right += np.bincount(right, minlength=n_classes)
        counted.total += np.bincount(labels, minlength=n_classes)
        scores.append(counted)
    return scores
