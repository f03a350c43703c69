"""ScaIL: the first weights of old classes, scaled to the size of the weights of new ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from energyalign.core.arrays import Floats
from energyalign.incremental.correctors.base import Corrected
from energyalign.incremental.correctors.plain import PlainCorrector

if TYPE_CHECKING:
    from energyalign.experiment.evidence import EvidencePlan
    from energyalign.incremental.after_step import AfterStep


class EligibleHead(nn.Module):  # type: ignore[misc]
    """Scores of one head, where only those old classes can win that another head has among its first.

    Parameters
    ----------
    head : torch.nn.Module
        Whose scores are given.
    chooser : torch.nn.Module
        Whose scores choose among the old classes. New ones can always win.
    n_old, n_eligible : int
        How many classes are old, and how many of them can win.
    """

    def __init__(self, head: nn.Module, chooser: nn.Module, n_old: int, n_eligible: int) -> None:
        super().__init__()
        self.head, self.chooser = head, chooser
        self.n_old, self.n_eligible = n_old, min(n_eligible, n_old)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Scores, minus infinity for classes that cannot win."""
        scores = self.head(features)
        chosen = self.chooser(features)[:, : self.n_old].topk(self.n_eligible, dim=1).indices
        eligible = torch.ones_like(scores, dtype=torch.bool)
        eligible[:, : self.n_old] = False
        eligible.scatter_(1, chosen, True)
        return scores.masked_fill(~eligible, -torch.inf)


@dataclass(frozen=True)
class ScaIL(PlainCorrector):
    """``w_id * profile_now[r] / profile_s[r]`` for an old class i of step s, with the w_i of the end of step s.

    r is the rank of ``|w_id|`` among the weights of the class. ``profile_s[r]`` is the mean, over the classes of step
    s, of their r-th largest absolute weight at the end of step s, and ``profile_now`` the same of the new classes.
    Weights of new classes stay. Old classes other than the first ten by the scores of the network as trained cannot
    win.

    The published code takes the factor at the place where a sorting permutation has its d-th entry; here it is the rank
    of dimension d, which the paper speaks of. There the bias of old classes is scaled by a mean over all classes; here
    by ``mean |b_new| / mean |b_s|``, as the weights are. Where a profile is zero, so are the weights that it would
    scale, and they stay so.

    Attributes
    ----------
    n_eligible : int
        How many old classes can win.

    References
    ----------
    Belouadah and Popescu 2020, ScaIL: Classifier Weights Scaling for Class Incremental Learning.
    """

    n_eligible: int = 10

    def correct(self, after: AfterStep, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        """The head with the first rows of old classes, scaled."""
        head, now = after.copied_head(), after.records[-1]
        first = after.records[:-1]
        weight = np.concatenate([scaled_rows(record.weight, now.weight) for record in first])
        bias = np.concatenate([scaled_rows(record.bias[:, None], now.bias[:, None]) for record in first])[:, 0]
        n_old = after.step.n_old
        with torch.no_grad():
            head.weight[:n_old] = torch.from_numpy(weight).to(head.weight)
            if head.bias is not None:
                head.bias[:n_old] = torch.from_numpy(bias).to(head.bias)
        return Corrected(EligibleHead(head, after.copied_head(), n_old, self.n_eligible))


def scaled_rows(first: Floats, now: Floats) -> Floats:
    """The first weights of the classes of a step, each scaled by what its rank has gained or lost until now."""
    before, after = _profile(first), _profile(now)
    factors = np.where(before > 0, after / np.where(before > 0, before, 1.0), 1.0)
    ranks = (-np.abs(first)).argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    scaled: Floats = first * factors[ranks]
    return scaled


def _profile(weight: Floats) -> Floats:
    """Absolute weights, largest first, averaged over the classes."""
    profile: Floats = np.sort(np.abs(weight), axis=1)[:, ::-1].mean(axis=0)
    return profile
