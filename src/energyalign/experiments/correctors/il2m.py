"""IL2M: scores of old classes set right by statistics that were taken when they were new."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from energyalign.core.arrays import Floats
from energyalign.experiments.correctors.base import Corrected, Corrector, RunSetting, refuse_no_memory, refuse_one_step

if TYPE_CHECKING:
    from energyalign.experiments.engine.config import EvidencePlan
    from energyalign.experiments.engine.trained import Trained


@dataclass(frozen=True)
class IL2M(Corrector):
    """``score_i * (first_i / now_i) * (conf_now / conf_s)`` for an old class i of step s, if a new class comes first.

    ``first_i`` is the mean score of class i over its training images at the end of its own step, ``now_i`` that over
    its exemplars under the network of today; ``conf_s`` is the mean of the highest score over all training images that
    were new in step s, ``conf_now`` the same of today. Scores of new classes stay, and so do all scores of an image
    whose highest score is that of an old class.

    The original multiplies logits, whatever their signs, and so does the default. Where the means that are divided
    differ in sign, the factor is negative and turns scores round; the row then has a warning. Only a class whose mean
    of today is exactly zero keeps its score, because there is nothing to divide by.

    Attributes
    ----------
    softmax : bool, default False
        Scores are softmax outputs, not logits, as the original has it.

    The row shares the training of all that fine-tune, and so its random memory.

    References
    ----------
    Belouadah and Popescu 2019, IL2M: Class Incremental Learning With Dual Memory.
    """

    softmax: bool = False

    def check(self, setting: RunSetting) -> None:
        """Means of today take exemplars of old classes."""
        refuse_one_step(setting, "il2m")
        refuse_no_memory(setting, "il2m compares scores of exemplars with those of former steps")

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        """The head with factors behind it."""
        import torch

        from energyalign.experiments.nets.corrected_heads import RectifiedHead

        softmax, records, n_old = self.softmax, trained.records, trained.n_old
        first = [record.mean_probability if softmax else record.mean_score for record in records[:-1]]
        confidence = np.array([record.confidence_probability if softmax else record.confidence for record in records])
        divisors = self._mean_now(trained) * np.repeat(confidence[:-1], trained.sizes[:-1])
        factors = np.concatenate(first) * confidence[-1] / np.where(divisors == 0, 1.0, divisors)
        factors[divisors == 0] = 1.0
        every = torch.ones(trained.n_seen)
        every[:n_old] = torch.tensor(factors, dtype=torch.float32)
        head = RectifiedHead(trained.copied_head(), every, n_old, softmax=softmax)
        n_negative = int(np.count_nonzero(factors < 0))
        concerns = (_describe_negative(n_negative, n_old),) if n_negative else ()
        details = {"factors": factors.tolist()}
        return Corrected(trained.with_head(head), details=details, concerns=concerns, gives_logits=False)

    def _mean_now(self, trained: Trained) -> Floats:
        """Mean score of each old class over its exemplars."""
        import torch

        logits = torch.from_numpy(trained.train_logits[~trained.is_new]).double()
        scores = (logits.softmax(dim=1) if self.softmax else logits).numpy()
        labels = trained.train.labels[~trained.is_new]
        own = scores[np.arange(len(labels)), labels]
        n_old = trained.n_old
        means: Floats = np.bincount(labels, own, minlength=n_old) / np.bincount(labels, minlength=n_old)
        return means


def _describe_negative(n_negative: int, n_old: int) -> str:
    return (
        f"{n_negative} of {n_old} old classes have a negative factor, because their mean logits of then and now differ "
        "in sign. The original multiplies all the same; il2m-softmax cannot have one."
    )
