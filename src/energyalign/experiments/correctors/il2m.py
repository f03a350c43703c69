"""IL2M: rectify scores of old classes by statistics that were recorded when the classes were new."""

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
    """``score_i * (first_i / now_i) * (conf_now / conf_s)`` for an old class i of step s, if a new class is predicted.

    ``first_i`` is the mean score of class i over its training images at the end of its own step, ``now_i`` its mean
    score over its exemplars under the present network. ``conf_s`` is the mean of the highest score over all images that
    were new in step s, ``conf_now`` the same for the present step. Scores of new classes do not change, nor do any
    scores of an image whose prediction is an old class.

    The original multiplies logits, whatever their signs, and so does the default. If the first and the present mean
    differ in sign, the factor is negative and reverses scores; the row then has a concern. A class whose present mean
    is exactly zero keeps its score. The row shares the training of fine-tuning, and so its random memory.

    Attributes
    ----------
    softmax : bool, default False
        Multiply softmax outputs instead of logits.

    References
    ----------
    Belouadah and Popescu 2019, IL2M: Class Incremental Learning With Dual Memory.
    """

    softmax: bool = False

    def check(self, setting: RunSetting) -> None:
        refuse_one_step(setting, "il2m")
        refuse_no_memory(setting)

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
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
        concerns = (_warn_of_negative(n_negative, n_old),) if n_negative else ()
        details = {"factors": factors.tolist()}
        return Corrected(trained.with_head(head), details=details, concerns=concerns, gives_logits=False)

    def _mean_now(self, trained: Trained) -> Floats:
        """Return the mean score of each old class over its exemplars."""
        import torch

        logits = torch.from_numpy(trained.train_logits[~trained.is_new]).double()
        scores = (logits.softmax(dim=1) if self.softmax else logits).numpy()
        labels = trained.train.labels[~trained.is_new]
        own = scores[np.arange(len(labels)), labels]
        n_old = trained.n_old
        means: Floats = np.bincount(labels, own, minlength=n_old) / np.bincount(labels, minlength=n_old)
        return means


def _warn_of_negative(n_negative: int, n_old: int) -> str:
    return (
        f"{n_negative} of {n_old} old classes have a negative factor, because their first and present mean logits "
        "differ in sign. The original multiplies anyway; il2m-softmax has no negative factors."
    )
