"""The page of a fit starts with the result and its cost."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from energyalign import ClassScores, Evidence, fit_shifts
from energyalign.core.selection.record import Candidate, Selection
from energyalign.report.page.fit_page import write_fit_page

LOGITS = np.array([[2.0, 0], [2.0, 0], [2.0, 0], [1.0, 0], [1.0, 0], [3.0, 0]])
LABELS = np.array([0, 0, 0, 0, 1, 1])
EVIDENCE = Evidence.from_arrays(LOGITS, LABELS, counts=[448, 100], kind="held-out")  # log(4.48) is 1.5
SHIFTS = fit_shifts(EVIDENCE, estimator="prior")


def results(path: Path, shifts=SHIFTS):
    scores = tuple(ClassScores(2).update(logits, LABELS) for logits in (LOGITS, shifts.apply(LOGITS)))
    write_fit_page(
        path, name="mine", command="energyalign fit", blocks=lambda: [LOGITS], labels=LABELS, evidence=EVIDENCE,
        shifts=shifts, scores=scores,
    )  # fmt: skip
    text = path.read_text(encoding="utf-8")
    start = text.index('<div class="results">')
    return text[start : text.index("</div>", start)]


def test_it_begins_with_balanced_accuracy_and_says_what_it_cost(tmp_path):
    found = results(tmp_path / "page.html")
    # The recalls are 3/4 and 1/2: sqrt(.75 * .25 / 4 + .5 * .5 / 2) / 2 is .2073, and 1.96 of these are 40.6 %.
    assert "Balanced accuracy 50.0 % → 62.5 % (± 40.6). The shifts were fitted on these samples" in found
    assert "overall accuracy 66.7 % → 66.7 %." in found
    assert "1 class gained accuracy and 1 lost some; class 0 lost most: 100.0 % → 75.0 %." in found


def test_a_cross_fitted_score_comes_first_with_its_interval(tmp_path):
    tried = (Candidate("none", "none", score=0.5), Candidate("prior", "per-class", score=0.6))
    scored = replace(SHIFTS, selection=Selection(tried, 1, "it pays.", gain=0.1, gain_error=0.02))
    found = results(tmp_path / "page.html", scored)
    assert "Balanced accuracy 50.0 % → 60.0 % on samples that the shifts were not fitted on" in found
    assert "(95 % interval of the gain: +6.1 to +13.9)" in found


@pytest.mark.filterwarnings("ignore:the evidence does not show")
def test_a_score_under_a_target_prior_is_not_called_balanced(tmp_path):
    logits, labels = np.tile(LOGITS, (10, 1)), np.tile(LABELS, 10)
    evidence = Evidence.from_arrays(logits, labels, counts=[448, 100], kind="held-out")
    fitted = fit_shifts(evidence, target_prior=[0.8, 0.2])
    assert "Accuracy under the target prior 80.0 %" in results(tmp_path / "page.html", fitted)
    assert "for accuracy under the target prior, from" in fitted.summary()
    assert "cross-fitted accuracy under the target prior: raw 0.8000" in fitted.summary()
    scored_before = fit_shifts(evidence).with_target([0.8, 0.2])
    assert "Balanced accuracy 50.0 %" in results(tmp_path / "page.html", scored_before)


def test_the_class_of_f1_keeps_its_name(tmp_path):
    scored = Selection(
        (Candidate("none", "none", score=0.5), Candidate("prior", "per-class", score=0.6)), 1, "", 0.1, 0.1
    )
    shifts = replace(SHIFTS, scoring="f1", class_names=("No", "Big_Fraud"), selection=scored)
    assert "F1 of class Big_Fraud 50.0 % → 60.0 %" in results(tmp_path / "page.html", shifts)


def test_costs_are_shown_as_mean_costs(tmp_path):
    """The score is the negative mean cost, which is hard to read."""
    tried = (Candidate("none", "none", score=-0.31), Candidate("prior", "per-class", score=-0.22))
    scored = replace(SHIFTS, scoring="costs", selection=Selection(tried, 1, "it pays.", gain=0.09, gain_error=0.01))
    path = tmp_path / "page.html"
    found = results(path, scored)
    assert "Mean cost 0.310 → 0.220 on samples that the shifts were not fitted on" in found
    assert "(95 % interval of the reduction: 0.070 to 0.110)" in found
    fitted = path.read_text(encoding="utf-8").rpartition("What was fitted")[2]
    assert "scoring mean cost." in fitted
    assert ">cross-fitted mean cost<" in fitted
    assert ">0.310<" in fitted
    assert "-0.310" not in fitted
