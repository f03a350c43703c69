"""De-confound: cross-entropy on the multi-head normalised classifier."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from energyalign.experiments.longtail.learners.cross_entropy import CrossEntropy

if TYPE_CHECKING:
    from energyalign.experiments.longtail.experiment import Setting
    from energyalign.experiments.train.loop import EpochBatches


@dataclass(frozen=True)
class DeConfound(CrossEntropy):
    """Cross-entropy with the causal-norm head, on the original's network and augmentation.

    On CIFAR the original's "ResNet-32" is BBN's network: two last blocks side by side, 128 features, one part of the
    head for each block (K = 2). The published alphas of the corrector ``tde`` belong to that network. Other backbones
    are not changed. On ImageNet-LT the original also jitters brightness, contrast and saturation; the paper's own rows
    only crop and flip.

    The original trains on CIFAR with batches of 256 and a learning rate of 0.2; here both come from the cell: 128 and
    0.1.

    Attributes
    ----------
    jitter : float, default 0.4
        Maximum change of brightness, contrast and saturation on ImageNet-LT.

    References
    ----------
    Tang, Huang and Zhang 2020, Long-Tailed Classification by Keeping the Good and Removing the Bad Momentum Causal
    Effect.
    """

    name: ClassVar[str] = "de-confound"
    head: ClassVar[str | None] = "causal-norm"
    jitter: float = 0.4

    def backbone(self, name: str) -> str:
        return f"{name}-bbn" if name in ("resnet32", "resnet8") else name

    def batches(self, setting: Setting) -> EpochBatches:
        from energyalign.experiments.data.file_images import FileImages

        images = setting.train
        if setting.config.dataset == "imagenet-lt" and isinstance(images, FileImages):
            images = replace(images, preparation=replace(images.preparation, jitter=self.jitter))
        return replace(setting, train=images).loader()
