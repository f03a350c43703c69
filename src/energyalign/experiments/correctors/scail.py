"""ScaIL: the initial weights of old classes, scaled to the weights of new ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from energyalign.core.arrays import Floats
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.correctors.base import Corrected, Corrector, RunSetting, refuse_one_step

if TYPE_CHECKING:
    from energyalign.experiments.engine.config import EvidencePlan
    from energyalign.experiments.engine.trained import Trained


@dataclass(frozen=True)
class ScaIL(Corrector):
    """``w_id * profile_now[r] / profile_s[r]`` for an old class i of step s, with the w_i from the end of step s.

    r is the rank of ``|w_id|`` among the weights of the class. ``profile_s[r]`` is the mean, over the classes of step
    s, of their r-th largest absolute weight at the end of step s, and ``profile_now`` the same for the new classes.
    Weights of new classes do not change. Only the ten best old classes by the scores of the network as trained can win.

    The published code indexes the factor by a sorting permutation instead of its inverse; here the factor belongs to
    the rank, as in the paper. It also scales the bias of old classes by a mean over all classes; here the factor is
    ``mean |b_new| / mean |b_s|``, as for weights. Weights with a profile of zero are zero and stay zero.

    Attributes
    ----------
    n_eligible : int, default 10
        Number of old classes that can win.

    References
    ----------
    Belouadah and Popescu 2020, ScaIL: Classifier Weights Scaling for Class Incremental Learning.
    """

    n_eligible: int = 10

    def check(self, setting: RunSetting) -> None:
        refuse_one_step(setting, "scail")
        if getattr(setting.config.learner, "grows", False):
            raise EnergyAlignError(
                f"scail reuses weights of former steps, and a network of {setting.config.learner.name} has more "
                "features in every step: leave it out."
            )

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        import torch

        from energyalign.experiments.nets.corrected_heads import EligibleHead

        head, n_old = trained.copied_head(), trained.n_old
        *first, now = trained.records
        weight = np.concatenate([scale_rows(record.weight, now.weight) for record in first])
        bias = np.concatenate([scale_rows(record.bias[:, None], now.bias[:, None]) for record in first])[:, 0]
        with torch.no_grad():
            head.weight[:n_old] = torch.from_numpy(weight).to(head.weight)
            if head.bias is not None:
                head.bias[:n_old] = torch.from_numpy(bias).to(head.bias)
        return Corrected(trained.with_head(EligibleHead(head, trained.copied_head(), n_old, self.n_eligible)))


def scale_rows(first: Floats, now: Floats) -> Floats:
    """Scale the initial weights of one step's classes, each by the ratio of the two profiles at its rank."""
    before, after = _profile(first), _profile(now)
    factors = np.where(before > 0, after / np.where(before > 0, before, 1.0), 1.0)
    ranks = (-np.abs(first)).argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    scaled: Floats = first * factors[ranks]
    return scaled


def _profile(weight: Floats) -> Floats:
    """Return absolute weights, largest first, averaged over the classes."""
    profile: Floats = np.sort(np.abs(weight), axis=1)[:, ::-1].mean(axis=0)
    return profile
