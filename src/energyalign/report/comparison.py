"""Paired comparisons of two rows: over test images and over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from energyalign.core.arrays import Bools, Floats, Ints
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.row import Row
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.paired import N_RESAMPLES, RESAMPLING_SEED, Gain, bootstrap, mcnemar, paired_t
from energyalign.report.tables.model import Cell, Column, Line, PaperTable
from energyalign.report.tables.settings import differences
from energyalign.report.trainings import AS_TRAINED, Training, labels_of, name_in_full, setting, sort_correctors

_COLUMNS = (
    Column("A", better=""),
    Column("B", better=""),
    Column("B - A", better="", form="+.1f"),
    Column("s.e.", better="", form=".2f"),
    Column("from", "95 % interval", better="", form="+.1f"),
    Column("to", "95 % interval", better="", form="+.1f"),
    Column("A", "right alone", better="", form=".0f"),
    Column("B", "right alone", better="", form=".0f"),
    Column("p", better="", form=".2g"),
)
_ABOUT_SAMPLES = (
    "A, B: balanced accuracy in %. Standard error and interval of B - A: paired bootstrap over test images, within "
    f"classes ({N_RESAMPLES:,} resamples, seed {RESAMPLING_SEED}). Right alone: images that only A, or only B, "
    "classifies correctly; p: exact McNemar test of the overall accuracy, two-sided."
)
_ABOUT_SEEDS = (
    "All seeds: bootstrap of the mean over seeds; the interval is for these networks on other test images. Over seeds: "
    "paired t interval, for other trainings on these test images."
)
_IN_NAMES = ("name", "seed", "learner", "head", "memory", "fed_back")
"""Settings that the title or the names of lines state already."""


class Pair(NamedTuple):
    """Two sides of a comparison: a run with its row for each seed."""

    name: str
    one: Sequence[tuple[StoredRun, Row]]
    other: Sequence[tuple[StoredRun, Row]]


def comparison_table(pairs: Sequence[Pair]) -> PaperTable:
    """Return a table with a line for each pair and seed, and for all seeds and over seeds if there are several."""
    lines = [line for pair in pairs for line in _lines(pair)]
    one, other = (
        ", ".join(dict.fromkeys(row.cell for pair in pairs for _, row in getattr(pair, side)))
        for side in ("one", "other")
    )
    title = f"B against A on {one}" if one == other else f"B on {other} against A on {one}"
    notes = [_ABOUT_SAMPLES]
    if any(cell.n and cell.n > 1 for line in lines for cell in line.cells):
        notes.append(_ABOUT_SEEDS)
    notes += dict.fromkeys(filter(None, map(_about_settings, pairs)))
    return PaperTable("compare", title, _COLUMNS, tuple(lines), tuple(notes), corner="A to B")


def _about_settings(pair: Pair) -> str:
    """Return a note on the settings in which the two sides differ; empty if there are none."""
    one, other = (side[0][0].config.values for side in (pair.one, pair.other))
    different = [item for item in differences(one, other) if item.name not in _IN_NAMES]
    settings = "; ".join(f"{name} is {of_one} and {of_other}" for name, of_one, of_other in different)
    return f"A and B also differ in settings: {settings}." if settings else ""


def pairs_within(runs: Sequence[StoredRun], rows: Sequence[str] = ()) -> list[Pair]:
    """Pair the first corrector with each of the others, for every training that has both.

    Without names, pair the raw network with every other corrector.
    """
    trainings = name_in_full(runs)
    pairs = []
    for training in trainings:
        first, *others = rows or (AS_TRAINED, *(name for name in training.correctors if name != AS_TRAINED))
        for other in others:
            shared = training.shared_by(first, other)
            if shared.runs:
                name = f"{first} to {other}"
                named = f"{training.cell}, {training.label}: {name}" if len(trainings) > 1 else name
                pairs.append(Pair(named, shared.measured(first), shared.measured(other)))
    if not pairs:
        wanted = " and ".join(rows) or f"{AS_TRAINED} and another corrector"
        measured = ", ".join(dict.fromkeys(name for training in trainings for name in training.correctors))
        raise EnergyAlignError(f"expected a seed with rows of {wanted}, got rows of {measured}.")
    return pairs


def pairs_between(
    one: Sequence[StoredRun], other: Sequence[StoredRun], rows: Sequence[tuple[str, str]] = ()
) -> list[Pair]:
    """Pair two trainings, with the given correctors or by default with every corrector that both have."""
    a, b = _name_apart(_only(one), _only(other))
    chosen = list(rows) or [(name, name) for name in a.correctors if name in b.correctors]
    pairs = []
    for first, second in chosen:
        check_corrector(a.runs, first)
        check_corrector(b.runs, second)
        pairs.append(Pair(f"{a.label} + {first} to {b.label} + {second}", a.measured(first), b.measured(second)))
    if not pairs:
        raise EnergyAlignError(
            f"the two sides have no corrector in common: {', '.join(a.correctors)}, and {', '.join(b.correctors)}. "
            "Name one of each, such as A:raw B:ea."
        )
    return pairs


def check_corrector(runs: Sequence[StoredRun], name: str) -> None:
    """Raise if no run has a row of this corrector."""
    known = sort_correctors({row.corrector for run in runs for row in run.rows})
    if name not in known:
        raise EnergyAlignError(f"{runs[0].path.parent} has no row of {name}: choose one of {', '.join(known)}.")


def _name_apart(a: Training, b: Training) -> tuple[Training, Training]:
    """Extend equal names of trainings by their cells, or else by the settings in which the trainings differ."""
    if a.label != b.label or setting(a.runs[0]) == setting(b.runs[0]):
        return a, b
    words = [a.cell, b.cell] if a.cell != b.cell else labels_of([a.runs[0], b.runs[0]])
    a, b = (replace(side, label=f"{side.label}, {word}") for side, word in zip((a, b), words, strict=True))
    return a, b


def _only(runs: Sequence[StoredRun]) -> Training:
    trainings = name_in_full(runs)
    if len(trainings) > 1:
        raise EnergyAlignError(
            f"each side must be one training, got {len(trainings)} "
            f"({'; '.join(training.label for training in trainings)}): give the folder of one, such as "
            f"{trainings[0].runs[0].path.parent}."
        )
    return trainings[0]


class _Measured(NamedTuple):
    """Both rows of a seed, on the same test images."""

    one: Row
    other: Row
    labels: Ints
    one_right: Bools
    other_right: Bools

    @property
    def gains(self) -> Floats:
        return self.other_right.astype(np.float64) - self.one_right


def _lines(pair: Pair) -> list[Line]:
    others = {row.seed: (run, row) for run, row in pair.other}
    seeds = [_measure(first, others[first[1].seed]) for first in pair.one if first[1].seed in others]
    if not seeds:
        raise EnergyAlignError(
            f"{pair.name}: the two sides have no seed in common ({_seeds(pair.one)}; {_seeds(pair.other)}): run both "
            "with the same --seed."
        )
    lines = []
    for of_seed in seeds:
        alone = (of_seed.one_right & ~of_seed.other_right, of_seed.other_right & ~of_seed.one_right)
        tested = [*(int(np.count_nonzero(images)) for images in alone), mcnemar(of_seed.one_right, of_seed.other_right)]
        name = f"{pair.name}, seed {of_seed.one.seed}"
        lines.append(_line(name, [of_seed], bootstrap(of_seed.labels, of_seed.gains), tested))
    if len(seeds) > 1:
        labels = seeds[0].labels
        if all(np.array_equal(of_seed.labels, labels) for of_seed in seeds):  # classes may come in another order
            gains = np.mean([of_seed.gains for of_seed in seeds], axis=0)
            lines.append(_line(f"{pair.name}, all seeds", seeds, bootstrap(labels, gains)))
        over_seeds = paired_t([of_seed.other.balanced - of_seed.one.balanced for of_seed in seeds])
        lines.append(_line(f"{pair.name}, over seeds", seeds, over_seeds))
    return lines


def _line(name: str, seeds: Sequence[_Measured], gain: Gain, tested: Sequence[float] = ()) -> Line:
    means = [float(np.mean([getattr(of_seed, side).balanced for of_seed in seeds])) for side in ("one", "other")]
    shares = [Cell(100 * share, n=len(seeds)) for share in (*means, *gain)]
    return Line(name, "", (*shares, *(map(Cell, tested) if tested else [Cell()] * 3)))


def _measure(one: tuple[StoredRun, Row], other: tuple[StoredRun, Row]) -> _Measured:
    (run_a, a), (run_b, b) = one, other
    labels = run_a.outputs(a.step).labels
    same = a.step == b.step and np.array_equal(labels, run_b.outputs(b.step).labels)
    if not same or run_a.manifest.test_sha256 != run_b.manifest.test_sha256:
        raise EnergyAlignError(
            f"{run_a.path} and {run_b.path} must have the same test images after the same step: compare runs on the "
            "same data, with classes in the same order."
        )
    return _Measured(a, b, labels, _right(run_a, a, labels), _right(run_b, b, labels))


def _right(run: StoredRun, row: Row, labels: Ints) -> NDArray[np.bool_]:
    return np.asarray(run.predictions(row) == labels)


def _seeds(side: Sequence[tuple[StoredRun, Row]]) -> str:
    return f"seed {', '.join(str(row.seed) for _, row in side)}"
