"""Stored runs as trainings: which differ in the seed alone, what they are called, how far they are, what they say."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
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

AS_TRAINED, ALIGNED = "raw", "ea"
"""The correctors that are compared: without and with energy aligning."""
Facet = Callable[[StoredRun], str]
_LONGEST = 24
_CHECKPOINT = re.compile(r"epoch-(\d+)-batch-(\d+)\.safetensors")


@dataclass(frozen=True)
class Training:
    """The runs of one training, one for each seed, as they are after the last step that all of them have.

    Attributes
    ----------
    label : str
        What tells it from other trainings.
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
        """Whether its classes came in steps."""
        return self.runs[0].in_steps

    @property
    def step(self) -> int | None:
        """That last step; None for a long tail."""
        return min(max(row.step for row in run.rows) for run in self.runs) if self.in_steps else None

    @property
    def counts(self) -> Ints:
        """Training images of each class, the same for every seed."""
        return self.runs[0].counts(self.step)

    @property
    def n_old(self) -> int:
        """How many classes were there before that step; 0 for a long tail."""
        return int(self.runs[0].rows_at(self.step)[0].n_old) if self.in_steps else 0

    @property
    def class_names(self) -> tuple[str, ...]:
        """Of the classes that it has seen."""
        return self.runs[0].class_names[: len(self.counts)]

    @property
    def correctors(self) -> list[str]:
        """Those that were measured, in the order of the rows."""
        return list(dict.fromkeys(row.corrector for run in self.runs for row in run.rows_at(self.step)))

    def measured(self, corrector: str) -> list[tuple[StoredRun, Row]]:
        """The runs that were measured under a corrector, each with that row; all of one kind of evidence."""
        found = [(run, row) for run in self.runs for row in run.rows_at(self.step) if row.corrector == corrector]
        taken, _ = of_one_plan([row for _, row in found])
        return [(run, row) for run, row in found if row.evidence == taken[0].evidence]

    def shared_by(self, *correctors: str) -> Training:
        """The training with those seeds alone that were measured under all of these."""
        seeds = [{row.seed for row in self.rows_of(corrector)} for corrector in correctors]
        return Training(self.label, tuple(run for run in self.runs if all(run.config.seed in of for of in seeds)))

    def rows_of(self, corrector: str) -> list[Row]:
        """The row of each seed that was measured under a corrector."""
        return [row for _, row in self.measured(corrector)]

    def percentages(self, corrector: str, columns: Sequence[str]) -> NDArray[np.float64]:
        """These columns under a corrector, of shape (runs, columns); NaN where there is no class of such a group."""
        rows = self.rows_of(corrector)
        values = [[_percent(row.accuracy(column)) for column in columns] for row in rows]
        return np.array(values, dtype=np.float64).reshape(len(rows), len(columns))


def by_setting(runs: Sequence[StoredRun]) -> list[tuple[StoredRun, ...]]:
    """The seeds of each training, in the order in which they came; a seed that is given twice counts once."""
    grouped: dict[str, dict[int, StoredRun]] = {}
    for run in runs:
        grouped.setdefault(setting(run), {}).setdefault(run.config.seed, run)
    return [tuple(by_seed.values()) for by_seed in grouped.values()]


def named_in_full(runs: Sequence[StoredRun]) -> list[Training]:
    """Trainings whose label says what they are, and what else differs where that is not enough."""
    groups = by_setting(runs)
    names = [(seeds[0].config.name, full_name(seeds[0])) for seeds in groups]
    trainings = []
    for name, seeds in zip(names, groups, strict=True):
        namesakes = [other for other, also in zip(groups, names, strict=True) if also == name]
        differs = labels_of([other[0] for other in namesakes])[namesakes.index(seeds)] if len(namesakes) > 1 else ""
        trainings.append(Training(", ".join(filter(None, [name[1], differs])), seeds))
    return trainings


def setting(run: StoredRun, *varied: str) -> str:
    """All that fixes a training but the seed and what is varied: keys of the config, or of its recipe."""
    values = run.config.values
    recipe = {key: value for key, value in values["recipe"].items() if key not in varied}
    config = {key: value for key, value in values.items() if key not in ("seed", *varied)}
    return json.dumps({**config, "recipe": recipe}, sort_keys=True)


def _percent(share: float | None) -> float:
    return np.nan if share is None else 100.0 * share


def optimizer_name(run: StoredRun) -> str:
    """As the paper tells them apart."""
    optimizer = run.config.optimizer
    if "momentum" not in optimizer:
        return str(optimizer["kind"])
    return f"{optimizer['kind']} with{'' if optimizer['momentum'] else 'out'} momentum"


_COMMON: tuple[Facet, ...] = (
    lambda run: str(run.config.name),
    lambda run: str(run.rows[0].learner),
    lambda run: f"{run.config.head} head",
    lambda run: "" if run.config.backbone == "identity" else str(run.config.backbone),  # features as they are
)
_OTHERS: tuple[Facet, ...] = (
    lambda run: f"memory {run.rows[0].memory}" if run.in_steps else "",
    lambda run: f"fed back: {run.rows[0].fed_back}" if run.in_steps else "",
    lambda run: f"held out: {run.config.held_out:g}" if run.in_steps else "",
    optimizer_name,
    lambda run: count_of(run.config.epochs, "epoch"),
)


def full_name(run: StoredRun) -> str:
    """What a training is, whatever others there are: ``ce, cosine head``."""
    words = [facet(run) for facet in (*_COMMON[1:3], *(_OTHERS[:2] if run.in_steps else ()))]
    return shown(", ".join(words))


def labels_of(runs: Sequence[StoredRun]) -> list[str]:
    """A label for each of these trainings, of which each stands for all its seeds."""
    words: list[tuple[str, ...]] = [()] * len(runs)
    for facet in (*_COMMON, *_OTHERS, *_any_setting(runs)):
        told = list(map(facet, runs))
        for same in set(words):
            members = [index for index, said in enumerate(words) if said == same]
            if len({told[index] for index in members}) > 1:
                for index in members:
                    words[index] = (*words[index], told[index])
    labels = [", ".join(filter(None, said)) for said in words]
    return [shown(label or run.rows[0].learner) for label, run in zip(labels, runs, strict=True)]


def seeds_and_settings(runs: Sequence[StoredRun], seeds: Sequence[int], *others: str) -> str:
    """What is the same for all runs, given the number of seeds of every training."""
    words = [values.pop() for facet in _COMMON if len(values := {facet(run) for run in runs}) == 1]
    fewest, most = min(seeds), max(seeds)
    number = count_of(most, "seed") if fewest == most else f"{fewest} to {most} seeds"
    trainings = f"{len(seeds)} trainings" if len(seeds) > 1 else ""
    return shown(", ".join(filter(None, [*words, *others, trainings, number])))


def _any_setting(runs: Sequence[StoredRun]) -> list[Facet]:
    """Whatever else may differ: ``lr 0.05``."""
    settings = {id(run): leaves_of(run.config.values) for run in runs}

    def told(key: str) -> Facet:
        return lambda run: f"{key.rpartition('.')[2].replace('_', ' ')} {settings[id(run)].get(key, '-')}"

    return [told(key) for key in sorted({key for leaves in settings.values() for key in leaves} - {"seed"})]


def leaves_of(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Every setting as text, by its path: ``recipe.optimizer.lr``."""
    found: dict[str, str] = {}
    for key, value in config.items():
        found |= leaves_of(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": str(value)}
    return found


def shown(text: str) -> str:
    """What cannot be printed becomes a replacement character: it would break the lines, or an SVG file."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def short(text: str) -> str:
    """The same, cut to what finds room beside a panel."""
    text = shown(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


def how_far(run: StoredRun) -> str:
    """For example ``step 3 of 5, epoch 12 of 60``; empty once there are rows of the last step."""
    if run.rows and (not run.in_steps or run.rows_at()[0].step == run.n_steps):
        return ""
    done = run.rows_at()[0].step if run.rows else 0
    words = [f"step {done + 1} of {run.n_steps}"] if run.in_steps else []
    epoch = _epoch(run)
    words.append("nothing saved yet" if epoch is None else f"epoch {epoch} of {run.config.epochs}")
    return ", ".join(words)


def checkpoints_of(run: StoredRun) -> list[Path]:
    """Of all its stages, by name."""
    return sorted(path for path in run.path.rglob("*.safetensors") if _CHECKPOINT.fullmatch(path.name))


def _epoch(run: StoredRun) -> int | None:
    """The epoch that the newest checkpoint is in, of whatever stage; at most the last one."""
    newest = {path.parent: path.name for path in checkpoints_of(run)}  # of each stage, by name: clocks go backwards
    saved = []
    for folder, name in newest.items():
        with contextlib.suppress(FileNotFoundError):  # the run goes on, and drops old ones
            saved.append(((folder / name).stat().st_mtime_ns, name))
    if not saved:
        return None
    return min(int(max(saved)[1].split("-")[1]), int(run.config.epochs))


def corrected_outputs(run: StoredRun, row: Row) -> Outputs:
    """Logits plus shifts, in the precision of the rows; a row without shifts leaves them as they are."""
    outputs = run.outputs(row.step)
    return outputs._replace(logits=_shifted(outputs.logits, row, 1.0))


def scores_by_strength(run: StoredRun, row: Row, strengths: Sequence[float]) -> list[ClassScores]:
    """How good the predictions are at each strength."""
    logits, labels = run.outputs(row.step)
    n_classes = logits.shape[1]
    scores = []
    for strength in strengths:
        right = labels[_shifted(logits, row, strength).argmax(axis=1) == labels]
        counted = ClassScores(n_classes)
        counted.right += np.bincount(right, minlength=n_classes)
        counted.total += np.bincount(labels, minlength=n_classes)
        scores.append(counted)
    return scores


def _shifted(logits: NDArray[np.float32], row: Row, strength: float) -> NDArray[np.float32]:
    if row.shifts is None or strength == 0:
        return logits
    return logits + (strength * np.array(row.shifts)).astype(logits.dtype)
