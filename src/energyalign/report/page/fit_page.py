"""The page of `energyalign fit`: the user's own logits, with what was fitted and what else could be."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from energyalign.core._io.atomic import atomic_write
from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError, UntrustedEstimateWarning, count_of
from energyalign.core.evidence import Evidence
from energyalign.core.fitting import fit_shifts
from energyalign.core.metrics import ClassScores, balanced_standard_error, shot_groups
from energyalign.core.objectives import show_score
from energyalign.core.shifts import Shifts
from energyalign.report.page.document import Section, commands_html, document, list_html, note_html, table_html
from energyalign.report.page.view import BUDGET, Block, Correction, View

_OTHERS = ("lse", "marginal", "prior")
_EVEN = 1e-12
_NORMAL = 1.96  # standard errors on each side of a 95 % interval


def write_fit_page(
    path: str | Path, *, name: str, command: str, blocks: Callable[[], Iterable[Block]], labels: Ints,
    evidence: Evidence, shifts: Shifts, scores: tuple[ClassScores, ClassScores],
) -> None:  # fmt: skip
    """Write the page of labelled logits and the shifts that were fitted on them.

    Parameters
    ----------
    path : path
    name : str
        Of the logits.
    command : str
        That makes the page.
    blocks : callable
        Gives the logits, in blocks of samples.
    labels : array
        Class of each sample.
    evidence : Evidence
    shifts : Shifts
    scores : two ClassScores
        Of the raw and the corrected logits.
    """
    counts = shifts.counts
    view = View(
        name="", blocks=blocks, labels=labels, class_names=shifts.names_of(range(shifts.n_classes)),
        counts=counts, groups={} if counts is None else shot_groups(counts, shifts.n_classes), in_steps=False,
        corrections=[Correction(f"fitted: {shifts.estimator}, {shifts.clusters.name}", shifts), *_others(evidence)],
        target=None if np.ptp(shifts.log_target) < _EVEN else shifts.target_prior,
    )  # fmt: skip
    live = [{"name": name, "views": [view.to_json(BUDGET)]}]
    sections = [_fitted_section(shifts), _origin_section(name, command, evidence)]
    text = document(f"energyalign fit: {name}", _verdict(shifts, *scores), live, sections)
    with atomic_write(path) as stream:
        stream.write(text)


def _others(evidence: Evidence) -> list[Correction]:
    """Every estimator class by class, to compare; what the evidence does not allow is left out."""
    found = []
    for estimator in _OTHERS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UntrustedEstimateWarning)  # the page shows errors and sample sizes
                shifts = fit_shifts(evidence, estimator=estimator, clusters="per-class")
        except EnergyAlignError:
            continue
        found.append(Correction(f"{estimator}, per-class", shifts))
    return found


def _verdict(shifts: Shifts, before: ClassScores, after: ClassScores) -> list[str]:
    """The result, what it cost, and how it was found."""
    fitted = f"Estimator {shifts.estimator}, sharing {shifts.clusters.name}, for {shifts.aim}."
    return [_headline(shifts, before, after), _cost(shifts, before, after), fitted]


def _headline(shifts: Shifts, before: ClassScores, after: ClassScores) -> str:
    """On samples that the shifts were not fitted on, if the evidence can score."""
    selection = shifts.selection
    if selection is not None and selection.raw_and_chosen is not None:
        raw, chosen = (show_score(shifts.scoring, score) for score in selection.raw_and_chosen)
        scale = 100 if raw.endswith("%") else 1
        low, high = (
            scale * ((selection.gain or 0.0) + sign * _NORMAL * (selection.gain_error or 0.0)) for sign in (-1, 1)
        )
        return (
            f"{shifts.aim.replace('_', ' ').capitalize()} {raw} → {chosen}, on samples that the shifts were not fitted "
            f"on (95 % interval of the gain: {low:+.3g} to {high:+.3g})."
        )
    error = 100 * balanced_standard_error(np.nan_to_num(after.per_class), after.total)
    return (
        f"Balanced accuracy {100 * before.balanced_accuracy:.1f} % → {100 * after.balanced_accuracy:.1f} % "
        f"(± {_NORMAL * error:.1f}). {flattering(shifts.evidence_kind)}"
    )


def _cost(shifts: Shifts, before: ClassScores, after: ClassScores) -> str:
    """Overall accuracy, and who gained and lost."""
    change = after.per_class - before.per_class  # NaN for classes without samples
    gained, lost = (int(np.sum(sign * change > 0)) for sign in (1, -1))
    text = (
        f"On these samples overall accuracy goes from {100 * before.accuracy:.1f} % to {100 * after.accuracy:.1f} %; "
        f"{count_of(gained, 'class')} gained and {lost} lost"
    )
    if not lost:
        return f"{text}."
    worst = int(np.nanargmin(change))
    first, second = (100 * scores.per_class[worst] for scores in (before, after))
    return f"{text}; {shifts.names_of([worst])[0]} lost most, {first:.1f} % → {second:.1f} %."


def flattering(evidence_kind: str) -> str:
    """Why scores on the evidence are too good."""
    seen = "model may have been trained" if evidence_kind == "training" else "shifts were fitted"
    return f"The {seen} on these same samples, where numbers flatter: measure on others before you quote them."


def _fitted_section(shifts: Shifts) -> Section:
    html = ""
    if shifts.selection is not None:
        html += note_html(f"Chosen by auto: {shifts.selection.reason}")
        html += table_html(*_compared(shifts))
    html += list_html(shifts.concerns) if shifts.concerns else note_html("Nothing speaks against the estimate.")
    return Section("What was fitted", html)


def _compared(shifts: Shifts) -> tuple[Sequence[str], list[list[str]]]:
    selection = shifts.selection
    assert selection is not None
    lines = [
        [
            f"{candidate.estimator}, {candidate.sharing}" + (" (chosen)" if i == selection.chosen else ""),
            f"{candidate.strength:.2f}",
            show_score(shifts.scoring, candidate.score),
            "" if candidate.largest_error is None else f"{candidate.largest_error:.2f}",
            candidate.problem or "",
        ]
        for i, candidate in enumerate(selection.candidates)
    ]
    return ["what auto compared", "strength", "cross-fitted", "largest error", "problem"], lines


def _origin_section(name: str, command: str, evidence: Evidence) -> Section:
    html = note_html(f"{evidence.n_samples:,} {evidence.kind} samples of {evidence.n_classes:,} classes from {name}.")
    return Section("How to make it again", html + commands_html([command]))
