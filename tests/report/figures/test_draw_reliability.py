"""Accuracy and confidence in 15 bins, and the expected calibration error, computed image by image."""

from __future__ import annotations

from typing import Any

import numpy as np
from drawn import Stored, heights, is_labelled, logits, panels, shifted
from scipy.special import softmax

from energyalign.report.figures import FIGURES


def bins_of(scores: Any, labels: Any) -> list[list[tuple[float, bool]]]:
    """Return (confidence, right) of every image, grouped by bin of confidence."""
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(15)]
    for probabilities, label in zip(softmax(scores, axis=1), labels, strict=True):
        confidence = float(probabilities.max())
        (place,) = [k for k in range(15) if k / 15 <= confidence < (k + 1) / 15 or (k == 14 and confidence >= 1)]
        bins[place].append((confidence, bool(probabilities.argmax() == label)))
    return bins


def calibration_error(bins: list[list[tuple[float, bool]]]) -> float:
    total = sum(map(len, bins))
    gaps = [
        len(each) / total * abs(np.mean([r for _, r in each]) - np.mean([c for c, _ in each])) for each in bins if each
    ]
    return 100 * float(sum(gaps))


def test_before_and_after(long_tail: Stored) -> None:
    runs = long_tail.below("a-ce")
    figure = FIGURES["reliability"].draw(runs)
    assert is_labelled(figure)
    names = {"raw": "raw", "ea": "aligned"}
    for axes, (corrector, name) in zip(panels(figure), names.items(), strict=True):
        of_runs = [bins_of(shifted(run.path, corrector), logits(run.path)[1]) for run in runs]
        errors = [calibration_error(bins) for bins in of_runs]
        expected = f"{np.mean(errors):.1f} ± {np.std(errors, ddof=1):.1f} %"
        assert axes.get_title() == f"{name}\nexpected calibration error {expected}"
        pooled = [a + b for a, b in zip(*of_runs, strict=True)]
        total = sum(map(len, pooled))
        np.testing.assert_allclose(heights(axes), [len(each) / total for each in pooled])
        (points,) = [each for each in axes.collections if each.get_label() == f"accuracy, {name}"]
        full = [each for each in pooled if len(each) >= 0.01 * total]
        assert len(full) < sum(map(bool, pooled))  # some bins have next to no images
        expected = [[np.mean([part[k] for part in each]) for k in (0, 1)] for each in full]
        np.testing.assert_allclose(points.get_offsets(), expected, rtol=1e-5)
        sizes = [max(70 * len(each) / max(map(len, pooled)), 8) for each in full]
        np.testing.assert_allclose(points.get_sizes(), sizes)
        (joined,) = [each for each in axes.lines if len(each.get_xdata()) == len(full) and each.get_linestyle() == "-"]
        np.testing.assert_allclose(joined.get_xydata(), expected, rtol=1e-5)
