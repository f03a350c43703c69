"""IL2M: its factors by hand, when they are applied, and negative factors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hand_made_step import hand_made_step, linear, pixels, record
from incremental_run import digits_config, setting_of

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.correctors.il2m import IL2M
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.trained import Trained
from energyalign.experiments.incremental.learners.fine_tuning import FineTuning

# Classes 0 and 1 came in steps 1 and 2, classes 2 and 3 are new. Two exemplars of class 0, one of class 1.
FEATURES = [[1, 2, 9, 0], [0, 1, 2, 8], [4, 1, 0, 0], [2, 1, 0, 0], [0, 5, 1, 1]]
LABELS = [2, 3, 0, 0, 1]
RECORDS = [
    record(mean_score=[6.0], mean_probability=[0.8], confidence=2.0, confidence_probability=0.9),
    record(mean_score=[10.0], mean_probability=[0.9], confidence=5.0, confidence_probability=0.75),
    record(mean_score=[8.0, 8.0], mean_probability=[0.7, 0.7], confidence=4.0, confidence_probability=0.6),
]
IDENTITY = np.eye(4).tolist()


def after_step(weight: list[list[float]]) -> Trained:
    return hand_made_step(linear(weight), (1, 1, 2), pixels(FEATURES, LABELS, 4), records=RECORDS)


def test_the_factors_by_hand() -> None:
    """Exemplars now have mean scores of (4 + 2) / 2 = 3 and 5: 6/3 * 4/2 = 4 and 10/5 * 4/5 = 1.6."""
    corrected = IL2M().correct(after_step(IDENTITY), EvidencePlan())
    assert corrected.details["factors"] == pytest.approx([4.0, 1.6], rel=1e-5)
    assert corrected.concerns == ()
    taken_for_new, taken_for_old = [3.0, 2.0, 7.0, 1.0], [3.0, 1.0, 2.0, 0.0]
    scores = corrected.network.head(torch.tensor([taken_for_new, taken_for_old])).tolist()
    assert scores[0] == pytest.approx([12.0, 3.2, 7.0, 1.0], rel=1e-5)
    assert scores[1] == taken_for_old


def test_the_factors_of_softmax_outputs() -> None:
    corrected = IL2M(softmax=True).correct(after_step(IDENTITY), EvidencePlan())
    exponentials = np.exp(np.array(FEATURES, dtype=np.float64))
    outputs = exponentials / exponentials.sum(axis=1, keepdims=True)
    now = [(outputs[2, 0] + outputs[3, 0]) / 2, outputs[4, 1]]
    factors = [0.8 / now[0] * 0.6 / 0.9, 0.9 / now[1] * 0.6 / 0.75]
    assert corrected.details["factors"] == pytest.approx(factors, rel=1e-5)
    scores = corrected.network.head(torch.tensor([[1.0, 2.0, 9.0, 0.0]])).tolist()[0]
    assert scores == pytest.approx([outputs[0, 0] * factors[0], outputs[0, 1] * factors[1], *outputs[0, 2:]], rel=1e-4)


@pytest.mark.parametrize(("own", "factor", "n_concerns"), [(0.0, 1.0, 0), (-1.0, -1.6, 1)])
def test_the_original_multiplies_whatever_the_signs(own: float, factor: float, n_concerns: int) -> None:
    """With a mean of zero for class 1 there is nothing to divide by; with a negative mean the factor is negative."""
    weight = [IDENTITY[0], [0.0, own, 0.0, 0.0], *IDENTITY[2:]]
    corrected = IL2M().correct(after_step(weight), EvidencePlan())
    assert corrected.details["factors"] == pytest.approx([4.0, factor], rel=1e-5)
    assert len(corrected.concerns) == n_concerns
    assert all("1 of 2 old classes have a negative factor" in concern for concern in corrected.concerns)
    scores = corrected.network.head(torch.tensor([[1.0, 2.0, 9.0, 0.0]])).tolist()[0]
    assert scores == pytest.approx([4.0, 2.0 * own * factor, 9.0, 0.0], rel=1e-5)


def test_without_exemplars_it_is_refused() -> None:
    with pytest.raises(EnergyAlignError, match="cannot follow fine-tune, which keeps no memory here: give --memory"):
        IL2M().check(setting_of(digits_config(FineTuning(), epochs=1, memory="none")))
    IL2M().check(setting_of(digits_config(FineTuning(), epochs=1, memory="random:40")))
