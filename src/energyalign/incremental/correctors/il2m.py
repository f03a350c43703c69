"""IL2M: scores of old classes set right by statistics that were taken when they were new."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from energyalign.core.arrays import Floats
from energyalign.core.errors import EnergyAlignError
from energyalign.incremental.correctors.base import Corrected
from energyalign.incremental.correctors.plain import PlainCorrector
from energyalign.incremental.refusals import refuse_no_memory

if TYPE_CHECKING:
    from energyalign.experiment.evidence import EvidencePlan
    from energyalign.incremental.after_step import AfterStep
    from energyalign.incremental.config import IncrementalConfig


class RectifiedHead(nn.Module):  # type: ignore[misc]
    """A head whose scores are multiplied by a factor per class, for those images that it takes for a new class.

    Parameters
    ----------
    head : torch.nn.Module
    factors : torch.Tensor
        Of all classes; 1 for new ones.
    n_old : int
    softmax : bool
        Whether scores are softmax outputs of the head, and not its logits.
    """

    factors: torch.Tensor

    def __init__(self, head: nn.Module, factors: torch.Tensor, n_old: int, *, softmax: bool) -> None:
        super().__init__()
        self.head, self.n_old, self.softmax = head, n_old, softmax
        self.register_buffer("factors", factors)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Scores, rectified or as they are."""
        logits = self.head(features)
        scores = logits.softmax(dim=1) if self.softmax else logits
        taken_for_new = logits.argmax(dim=1, keepdim=True) >= self.n_old
        return torch.where(taken_for_new, scores * self.factors, scores)


@dataclass(frozen=True)
class IL2M(PlainCorrector):
    """``score_i * (first_i / now_i) * (conf_now / conf_s)`` for an old class i of step s, if a new class comes first.

    ``first_i`` is the mean score of class i over its training images at the end of its own step, ``now_i`` that over
    its exemplars under the network of today; ``conf_s`` is the mean of the highest score over all training images that
    were new in step s, ``conf_now`` the same of today. Scores of new classes stay, and so do all scores of an image
    whose highest score is that of an old class.

    The original multiplies logits, and so does the default. Logits can be negative: where two means that are divided
    differ in sign, or one is zero, their ratio says nothing of size and would turn scores round. The original
    multiplies all the same. Here such a class keeps its score, and ``details`` lists it under ``kept``.

    Attributes
    ----------
    scores : str
        ``raw`` for logits, as the original has it, or ``softmax``.

    The row shares the training of all that fine-tune, and so its random memory.

    References
    ----------
    Belouadah and Popescu 2019, IL2M: Class Incremental Learning With Dual Memory.
    """

    scores: str = "raw"

    def __post_init__(self) -> None:
        if self.scores not in ("raw", "softmax"):
            raise EnergyAlignError(f"unknown scores {self.scores!r} of IL2M: choose raw or softmax.")

    def check(self, config: IncrementalConfig) -> None:
        """Means of today take exemplars."""
        refuse_no_memory(config, "il2m compares scores of exemplars with those of former steps")

    def correct(self, after: AfterStep, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        """The head with factors behind it."""
        step, softmax = after.step, self.scores == "softmax"
        records = after.records
        first = [record.mean_probability if softmax else record.mean_score for record in records[:-1]]
        confidence = np.array([record.confidence_probability if softmax else record.confidence for record in records])
        of_class = np.repeat(confidence[:-1], step.sizes[:-1])
        drift = _ratio(np.concatenate(first), self._mean_now(after))
        growth = _ratio(np.full(step.n_old, confidence[-1]), of_class)
        factors = np.where(np.isnan(drift * growth), 1.0, drift * growth)
        every = torch.ones(step.n_seen, device=step.fabric.device)
        every[: step.n_old] = torch.tensor(factors, dtype=torch.float32)
        kept = np.flatnonzero(np.isnan(drift * growth)).tolist()
        head = RectifiedHead(after.copied_head(), every, step.n_old, softmax=softmax)
        concerns = (_told(len(kept), step.n_old),) if kept else ()
        return Corrected(head, details={"factors": factors.tolist(), "kept": kept}, concerns=concerns)

    def _mean_now(self, after: AfterStep) -> Floats:
        """Mean score of each old class over its exemplars."""
        step = after.step
        logits = torch.from_numpy(after.train_logits[~step.is_new]).double()
        scores = (logits.softmax(dim=1) if self.scores == "softmax" else logits).numpy()
        labels = step.train.labels[~step.is_new]
        own = scores[np.arange(len(labels)), labels]
        means: Floats = np.bincount(labels, own, minlength=step.n_old) / np.bincount(labels, minlength=step.n_old)
        return means


def _ratio(one: Floats, other: Floats) -> Floats:
    """One over the other where they have the same sign, NaN elsewhere."""
    same = one * other > 0
    return np.where(same, one / np.where(same, other, 1.0), np.nan)


def _told(n_kept: int, n_old: int) -> str:
    return (
        f"{n_kept} of {n_old} old classes keep their scores, because their mean logits of then and now differ in sign: "
        "look at il2m-softmax, where none can."
    )
