"""The page of `energyalign fit`: the user's own logits, the shifts fitted on them, and alternatives."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from energyalign.core._io.atomic import atomic_write
from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError, UntrustedEstimateWarning
from energyalign.core.evidence import Evidence
from energyalign.core.fitting import fit_shifts
from energyalign.core.metrics import ClassScores, balanced_standard_error, shot_groups
from energyalign.core.objectives import show_score
from energyalign.core.selection.record import UNIFORM
from energyalign.core.shifts import Shifts
from energyalign.report.page.document import Section, commands_html, document, list_html, note_html, table_html
from energyalign.report.page.sentences import describe_bias, describe_changes
from energyalign.report.page.view import BUDGET, Block, Correction, View

_ALTERNATIVES = ("lse", "marginal", "prior")
_NORMAL = 1.96
"""Half a 95 % interval, in standard errors."""


def write_fit_page(
    path: str | Path, *, name: str, command: str, blocks: Callable[[], Iterable[Block]], labels: Ints,
    evidence: Evidence, shifts: Shifts, scores: tuple[ClassScores, ClassScores],
) -> None:  # fmt: skip
    """Write the page of labelled logits and the shifts that were fitted on them.

    Parameters
    ----------
    path : path
    name : str
        Name of the logits.
    command : str
        Command line that writes the page.
    blocks : callable
        Returns the logits, in blocks of samples.
    labels : array
        Class of each sample.
    evidence : Evidence
    shifts : Shifts
    scores : two ClassScores
        Scores of the raw and of the corrected logits.
    """
    counts = shifts.counts
    groups = {} if counts is None else shot_groups(counts, shifts.n_classes)
    groups = {name: members for name, members in groups.items() if members.any()}
    view = View(
        name="", blocks=blocks, labels=labels, class_names=shifts.names_of(range(shifts.n_classes)), counts=counts,
        groups=groups if len(groups) > 1 else {}, in_steps=False,
        corrections=[
            Correction(f"fitted: {shifts.estimator}, {shifts.clusters.name}", shifts), *_fit_alternatives(evidence),
        ],
        target=None if np.ptp(shifts.log_target) < UNIFORM else shifts.target_prior,
        scoring=shifts.scoring, aim=_in_words(shifts),
    )  # fmt: skip
    live = [{"name": name, "views": [view.to_json(BUDGET)]}]
    sections = [_fitted_section(shifts), _origin_section(name, command, evidence)]
    result = _headline(shifts, *scores), _cost(shifts, *scores)
    text = document(f"energyalign fit: {name}", [result], live, sections)
    with atomic_write(path) as stream:
        stream.write(text)


def _fit_alternatives(evidence: Evidence) -> list[Correction]:
    """Fit other estimators, with a shift for each class, where the evidence allows them."""
    corrections = []
    for estimator in _ALTERNATIVES:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UntrustedEstimateWarning)  # the page shows errors and sample sizes
                shifts = fit_shifts(evidence, estimator=estimator, clusters="per-class")
        except EnergyAlignError:
            continue
        corrections.append(Correction(f"{estimator}, per-class", shifts))
    return corrections


def _headline(shifts: Shifts, before: ClassScores, after: ClassScores) -> str:
    """Say what the shifts gained: cross-fitted if the evidence can score, otherwise on the evidence itself."""
    selection = shifts.selection
    if selection is not None and selection.raw_and_chosen is not None:
        raw, chosen = (show_score(shifts.scoring, score) for score in selection.raw_and_chosen)
        scale, form = (100, "+.1f") if raw.endswith("%") else (1, "+.3f")
        change = "gain"
        if shifts.scoring == "costs":
            change, form = "reduction", ".3f"
        low, high = (
            scale * ((selection.gain or 0.0) + sign * _NORMAL * (selection.gain_error or 0.0)) for sign in (-1, 1)
        )
        is_balanced = shifts.scoring == "balanced_accuracy"
        aim = selection.score_name.replace("_", " ") if is_balanced else _in_words(shifts)
        return (
            f"{aim[0].upper()}{aim[1:]} {raw} → {chosen} on samples that the shifts were not fitted on "
            f"(95 % interval of the {change}: {low:{form}} to {high:{form}})."
        )
    error = 100 * balanced_standard_error(np.nan_to_num(after.per_class), after.total)
    return (
        f"Balanced accuracy {100 * before.balanced_accuracy:.1f} % → {100 * after.balanced_accuracy:.1f} % "
        f"(± {_NORMAL * error:.1f}). {describe_bias(shifts.evidence_kind)}"
    )


def _in_words(shifts: Shifts) -> str:
    """Return the name of the objective without underscores, but leave the class name of F1 as it is."""
    return shifts.aim if shifts.scoring == "f1" else shifts.aim.replace("_", " ")


def _cost(shifts: Shifts, before: ClassScores, after: ClassScores) -> str:
    names = shifts.names_of(range(shifts.n_classes))
    return (
        f"On these samples: overall accuracy {100 * before.accuracy:.1f} % → {100 * after.accuracy:.1f} %. "
        f"{describe_changes(before.per_class, after.per_class, names)}"
    )


def _fitted_section(shifts: Shifts) -> Section:
    html = note_html(f"Estimator {shifts.estimator}, sharing {shifts.clusters.name}, scoring {shifts.aim}.")
    if shifts.selection is not None:
        html += note_html(f"Chosen by auto: {shifts.selection.reason}") + _candidates(shifts)
    html += list_html(shifts.concerns) if shifts.concerns else note_html("No warnings.")
    return Section("What was fitted", html)


def _candidates(shifts: Shifts) -> str:
    """Return the table of the candidates of `auto`."""
    selection = shifts.selection
    assert selection is not None
    score = "mean cost" if shifts.scoring == "costs" else "score"
    columns = ["candidate", "strength", f"cross-fitted {score}", "largest std. error of a shift", "problem"]
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
    used = [k for k in range(len(columns)) if any(line[k] for line in lines)]
    return table_html([columns[k] for k in used], [[line[k] for k in used] for line in lines])


def _origin_section(name: str, command: str, evidence: Evidence) -> Section:
    html = note_html(f"{evidence.n_samples:,} {evidence.kind} samples of {evidence.n_classes:,} classes from {name}.")
    return Section("How to reproduce it", html + commands_html([command]))
