"""REPAIR: the largest logits re-ranked by an offset per class and a term for pairs of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from energyalign.experiments.correctors.base import (
    Corrected,
    Corrector,
    RunSetting,
    refuse_no_memory,
)

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.engine.config import EvidencePlan
    from energyalign.experiments.engine.trained import Trained

MIN_COVERED = 5  # samples whose class is re-ranked; with fewer the original changes nothing


class Fitted(NamedTuple):
    """An offset per class, and a weight for each of the three differences of a pair."""

    offsets: torch.Tensor
    weights: torch.Tensor


@dataclass(frozen=True)
class Repair(Corrector):
    """``r_y = f_y + a_y + 1/(k-1) sum_j theta . phi(y, j)`` over the other classes j of the k largest logits.

    ``phi(y, j) = (f_y - f_j, rank_j - rank_y, log(n_y + 1) - log(n_j + 1))``. Offsets a and weights theta minimise the
    mean of ``-log softmax(r)_y`` over samples whose class is among the k, plus ``offset_penalty |a|^2`` and
    ``pair_penalty |theta|^2``. Other classes rank below these k.

    It is fitted on images that the network has not seen: the validation images of the data set, if it has any, else a
    part held out from the training images. ``fitted_on`` in the row says which.

    The similarity of classes, for which the original reads WordNet or a taxonomy, is left out, and the fit starts from
    the network's logits, not from adjusted ones: so does the original on Places-LT, which has no such knowledge. The
    original also has the log ratio of a pair's probabilities, which is the difference of their logits again; here the
    two are one feature with half the penalty, which has the same minimum. All features are then differences, so the sum
    over j is k times the value of the class minus the mean of the k values: in effect, the term for pairs scales the
    logits and adds a bonus per rank and a multiple of the log counts. All samples count the same (the original's weight
    on rare classes, alpha, is 0 on ImageNet-LT). Penalties are the defaults of the released code, whose authors tuned
    them for each data set.

    Attributes
    ----------
    n_ranked : int, default 10
        k; all classes, if there are fewer.
    offset_penalty, pair_penalty : float, default 0.01 and 0.001
        As above.

    References
    ----------
    Beyond Logit Adjustment: A Residual Decomposition Framework for Long-Tailed Reranking, arXiv 2604.01506.
    """

    held_out: ClassVar[float] = 0.1  # share of each class; the original has validation images
    takes_validation: ClassVar[bool] = True

    n_ranked: int = 10
    offset_penalty: float = 0.01
    pair_penalty: float = 0.001

    def check(self, setting: RunSetting) -> None:
        refuse_no_memory(setting)

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        import torch

        from energyalign.experiments.nets.corrected_heads import RepairedHead

        fitted_on, images = "held-out images", trained.held_out
        if images is None:
            fitted_on, images = "validation images", trained.validation
        assert images is not None  # the experiment has seen to it
        labels = images.labels
        head = trained.copied_head()
        log_counts = torch.from_numpy(np.log1p(trained.counts))
        logits = torch.from_numpy(trained.scores(head, trained.features(images))).double()
        fitted = self.fit(logits, torch.from_numpy(labels), log_counts)
        repaired = RepairedHead(
            head, fitted.offsets.float(), fitted.weights.float(), log_counts.float(), self.n_ranked
        )  # fmt: skip
        return Corrected(
            trained.with_head(repaired),
            details={
                "fitted_on": fitted_on, "samples": len(labels), "offsets": fitted.offsets.tolist(),
                "weights": fitted.weights.tolist(),
            },
        )  # fmt: skip

    def fit(self, logits: torch.Tensor, labels: torch.Tensor, log_counts: torch.Tensor) -> Fitted:
        """Minimise by L-BFGS, starting at zero, in double precision."""
        import torch
        from torch.nn import functional as F

        from energyalign.experiments.nets.corrected_heads import ranked_pairs

        n_classes = logits.shape[1]
        ranked, largest, pairs = ranked_pairs(logits, log_counts, self.n_ranked)
        is_own = ranked == labels[:, None]
        covered = is_own.any(dim=1)
        ranked, largest, pairs, own = ranked[covered], largest[covered], pairs[covered], is_own[covered].int().argmax(1)
        both = torch.zeros(n_classes + 3, dtype=torch.float64, requires_grad=True)
        penalties = torch.full_like(both, self.offset_penalty)
        penalties[n_classes:] = self.pair_penalty * torch.tensor([0.5, 1.0, 1.0])
        optimizer = torch.optim.LBFGS([both], max_iter=300, tolerance_grad=1e-7, line_search_fn="strong_wolfe")

        def loss() -> torch.Tensor:
            optimizer.zero_grad()
            scores = largest + both[ranked] + pairs @ both[n_classes:]
            value = F.cross_entropy(scores, own) + (penalties * both.square()).sum()
            value.backward()
            return value.detach()

        if len(own) >= MIN_COVERED:
            optimizer.step(loss)
        return Fitted(*both.detach().split([n_classes, 3]))
