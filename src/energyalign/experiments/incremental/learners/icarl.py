"""The training of iCaRL."""

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
    """Binary cross-entropy of a sigmoid for every class: labels speak of new classes, the teacher of old ones.

    See `losses/sigmoid_distillation.py`. On new images and exemplars alike, old classes are the teacher's
    affair. The corrector ``nme`` belongs to it; with ``raw`` the head predicts, which the original's script calls
    hybrid 1.

    The original has a rate of 2 for the mean over all classes of the experiment, seen or not. A mean over the classes
    seen would learn at another pace in every step, so we take the sum, with the original's numbers for a sum: a rate of
    2 / 100 for the 100 classes of CIFAR and of ImageNet-100, and 2 / 1000 for ImageNet-1000. Its L2 term of 1e-5 is the
    square of the weights on CIFAR and half of it on ImageNet; for the rates above that is a weight decay of 2e-3, 1e-3
    and 1e-2. It is the same in every step, unlike that of the paper's own training.

    The rate falls to a fifth after 49 and 63 of 70 epochs on CIFAR, and after 21, 31, 41 and 51 of 60 on ImageNet; here
    after the same parts of the cell's epochs. Other data sets have the numbers of CIFAR: on digits, in batches of 32,
    rates from 0.005 to 0.2 all worked and 0.02 worked best.

    References
    ----------
    Rebuffi et al. 2017, iCaRL: Incremental Classifier and Representation Learning.
    """

    name: ClassVar[str] = "icarl"
    head: ClassVar[str | None] = "linear"
    has_teacher: ClassVar[bool] = True
    constant_weight_decay: ClassVar[bool] = True

    def recipe(self, preset: Preset) -> Recipe:
        """The original's steps and, if it is SGD, its rate and weight decay; epochs and batch size are the cell's."""
        schedule, lr, weight_decay = Steps((50, 64), 0.2, 70), 2 / 100, 2e-3
        if preset.dataset == "imagenet":
            n_outputs = 1000 if preset.subset == "all" else 100
            schedule, lr, weight_decay = Steps((22, 32, 42, 52), 0.2, 60), 2 / n_outputs, n_outputs * 1e-5
        own = replace(preset.recipe, schedule=schedule)
        if not isinstance(own.optimizer, SGD):
            return own
        return replace(own, optimizer=replace(own.optimizer, lr=lr, weight_decay=weight_decay))

    def loss(self, step: Step, teacher: torch.nn.Module | None) -> Loss:  # noqa: ARG002
        """The label's answer for all classes in the first step."""
        import torch

        from energyalign.experiments.losses.sigmoid_distillation import sigmoid_distillation

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            logits, taught = model(batch.images), None
            if teacher is not None:
                with torch.no_grad():
                    taught = teacher(batch.images)
            return sigmoid_distillation(logits, batch.labels, taught)

        return loss
