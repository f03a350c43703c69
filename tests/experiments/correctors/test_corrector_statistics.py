"""Streaming LDA and RanPAC behind a training: heads computed from training features; in steps they are learners."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from incremental_run import digits_config, setting_of
from untrained_run import scores_of_test, untrained_run

from energyalign import EnergyAlignError
from energyalign.experiments.correctors import find_corrector
from energyalign.experiments.correctors.statistics import RanPacHead, Slda
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.incremental.learners import find_learner
from energyalign.experiments.nets.lda import LdaHead
from energyalign.experiments.nets.random_projection import RIDGES


def test_slda_is_lda_of_the_training_features(tmp_path: Path) -> None:
    trained = untrained_run(tmp_path)
    corrected = Slda().correct(trained, EvidencePlan())
    assert corrected.network.backbone is trained.network.backbone
    expected = LdaHead(64, 10, 1e-4)
    expected.add(torch.from_numpy(trained.train_features), torch.from_numpy(trained.train.labels))
    np.testing.assert_array_equal(corrected.network.head.weight, expected.weight)
    assert np.isfinite(scores_of_test(trained, corrected)).all()


def test_ranpac_is_the_same_whenever_it_is_asked_for(tmp_path: Path) -> None:
    trained = untrained_run(tmp_path)
    first, second = (RanPacHead(n_projected=100).correct(trained, EvidencePlan()) for _ in range(2))
    assert first.details == second.details
    assert first.details["ridge"] in RIDGES
    np.testing.assert_array_equal(scores_of_test(trained, first), scores_of_test(trained, second))
    assert scores_of_test(trained, first).shape[1] == 10


@pytest.mark.parametrize("name", ["slda", "ranpac"])
def test_in_steps_they_are_learners(name: str) -> None:
    setting = setting_of(digits_config(find_learner("fine-tune"), epochs=1))
    with pytest.raises(EnergyAlignError, match=f"{name} is for long-tailed runs .*: here it is .* --method {name}"):
        find_corrector(name).check(setting)
    assert find_learner(name).name == name
