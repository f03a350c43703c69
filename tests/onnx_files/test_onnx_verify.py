"""The verification itself: wrong edits are detected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from energyalign.onnx.logits import FoundLogits
from energyalign.onnx.verify import NotAligned, verify
from energyalign.onnx.walk import Walk

SHIFTS = np.array([1.0, -2.0, 0.5])
LOGITS = FoundLogits(Walk(("z",), ()), SHIFTS, 1, {"z": "logits", "p": "probabilities"})


def softmax(logits: np.ndarray) -> np.ndarray:
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


@pytest.fixture
def before() -> dict[str, np.ndarray]:
    z = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
    return {"z": z, "p": softmax(z), "other": z[:, 0], "count": np.arange(4)}


@pytest.fixture
def after(before: Any) -> dict[str, np.ndarray]:
    z = (before["z"] + SHIFTS).astype("float32")
    return {**before, "z": z, "p": softmax(z)}


def judge(before: Any, after: Any) -> float:
    return verify([before, before], [after, after], LOGITS, {"other", "count"})


def test_what_is_right_passes(before: Any, after: Any) -> None:
    assert judge(before, after) < 1e-6


def test_the_largest_error_is_returned(before: Any, after: Any) -> None:
    after["z"] = after["z"] + np.float32(4e-6)
    assert judge(before, after) == pytest.approx(4e-6, rel=0.2)


@pytest.mark.parametrize("error", [1e-3, np.nan, np.inf])
def test_a_single_wrong_logit(before: Any, after: Any, error: float) -> None:
    after["z"][2, 1] += error
    with pytest.raises(NotAligned, match="the logits are off by"):
        judge(before, after)


def test_shifts_in_another_order(before: Any, after: Any) -> None:
    after["z"] = (before["z"] + SHIFTS[::-1]).astype("float32")
    with pytest.raises(NotAligned, match=r"the logits are off by 0\.5"):
        judge(before, after)


def test_probabilities_that_did_not_follow(before: Any, after: Any) -> None:
    after["p"] = before["p"]
    with pytest.raises(NotAligned, match="output 'p' does not follow the aligned logits"):
        judge(before, after)


@pytest.mark.parametrize("name", ["other", "count"])
def test_an_output_that_should_have_stayed(before: Any, after: Any, name: str) -> None:
    after[name] = after[name] + 1
    with pytest.raises(NotAligned, match=f"output '{name}' is not computed from the logits, but changed"):
        judge(before, after)


def test_rounding_is_judged_by_the_larger_of_raw_and_corrected_logits(before: Any) -> None:
    """Shifts that bring large logits near zero keep the rounding error of large numbers."""
    shifts = np.full(3, -1000.0123)
    old = {"z": before["z"] + np.float32(1000.0)}
    new = {"z": old["z"] + shifts.astype("float32")}
    logits = FoundLogits(Walk(("z",), ()), shifts, 1, {"z": "logits"})
    assert 1e-5 < verify([old], [new], logits, set()) < 1e-4


def test_an_error_in_the_second_run_only(before: Any, after: Any) -> None:
    with pytest.raises(NotAligned):
        verify([before, before], [after, before], LOGITS, set())
