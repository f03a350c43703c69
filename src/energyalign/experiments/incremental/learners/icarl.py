"""The training of iCaRL, and of LwF, which is the same without exemplars."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.experiments.incremental.learners.fine_tuning import FineTuning
from energyalign.experiments.train.recipe import SGD, Recipe, Steps

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.engine.config import Preset
    from energyalign.experiments.incremental.step import Step
    from energyalign.experiments.train.loop import Loss


@dataclass(frozen=True)
class ICaRL(FineTuning):
    """Binary cross-entropy of one sigmoid per class: new classes learn from labels, old ones from the teacher.

    See `sigmoid_distillation`. Its corrector is ``nme``; with ``raw`` the head predicts, which the original's script
    calls hybrid 1.

    The original has a learning rate of 2 for the mean over all classes of the experiment, seen or not. A mean over the
    classes seen would learn at another speed in every step, so we take the sum and convert the original's numbers: a
    rate of 2 / 100 for CIFAR and ImageNet-100, and 2 / 1000 for ImageNet-1000. Its L2 term of 1e-5 is the square of the
    weights on CIFAR and half of it on ImageNet; at these rates that is a weight decay of 2e-3, 1e-3 and 1e-2. It is the
    same in every step, unlike in the paper's own training.

    The rate falls to a fifth after 49 and 63 of 70 epochs on CIFAR, and after 21, 31, 41 and 51 of 60 on ImageNet; here
    after the same shares of the cell's epochs. Other data sets have the numbers of CIFAR: on digits, in batches of 32,
    all rates from 0.005 to 0.2 worked, and 0.02 worked best.

    References
    ----------
    Rebuffi et al. 2017, iCaRL: Incremental Classifier and Representation Learning.
    """

    name: ClassVar[str] = "icarl"
    head: ClassVar[str | None] = "linear"
    has_teacher: ClassVar[bool] = True
    constant_weight_decay: ClassVar[bool] = True

    def recipe(self, preset: Preset) -> Recipe:
        """Return the original's schedule and, for SGD, its rate and weight decay; other settings come from the cell."""
        schedule, lr, weight_decay = Steps((50, 64), 0.2, 70), 2 / 100, 2e-3
        if preset.dataset == "imagenet":
            n_outputs = 1000 if preset.subset == "all" else 100
            schedule, lr, weight_decay = Steps((22, 32, 42, 52), 0.2, 60), 2 / n_outputs, n_outputs * 1e-5
        own = replace(preset.recipe, schedule=schedule)
        if not isinstance(own.optimizer, SGD):
            return own
        return replace(own, optimizer=replace(own.optimizer, lr=lr, weight_decay=weight_decay))

    def loss(self, step: Step, teacher: torch.nn.Module | None) -> Loss:  # noqa: ARG002
        import torch

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            logits, taught = model(batch.images), None
            if teacher is not None:
                with torch.no_grad():
                    taught = teacher(batch.images)
            return sigmoid_distillation(logits, batch.labels, taught)

        return loss


def sigmoid_distillation(logits: torch.Tensor, labels: torch.Tensor, taught: torch.Tensor | None) -> torch.Tensor:
    """Return the batch mean of ``sum_k -t_k log p_k - (1 - t_k) log(1 - p_k)`` with ``p_k = sigmoid(z_k)``.

    `taught` are the teacher's logits of the old classes, (n, n_old), or None. The target ``t_k`` of an old class is the
    teacher's sigmoid, on exemplars too, whose labels are ignored. The target of a new class is 1 for the label, else 0.
    """
    from torch.nn import functional as F

    targets = F.one_hot(labels, logits.shape[1]).to(logits.dtype)
    if taught is not None:
        targets[:, : taught.shape[1]] = taught.sigmoid()
    return F.binary_cross_entropy_with_logits(logits, targets, reduction="sum") / len(labels)


@dataclass(frozen=True)
class LwF(ICaRL):
    """LwF.MC: the training of iCaRL without exemplars; the head predicts. Used with the memory ``none``.

    The iCaRL paper compares with this form, and the paper's tables quote it. The original LwF keeps one head for each
    task and is given the task of an image.

    References
    ----------
    Li, Hoiem 2017, Learning without Forgetting; Rebuffi et al. 2017, iCaRL: Incremental Classifier and Representation
    Learning.
    """

    name: ClassVar[str] = "lwf"
