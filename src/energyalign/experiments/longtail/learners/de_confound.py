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
    """Cross-entropy with the causal-norm head, on the network and the images of the original.

    On CIFAR the original's "ResNet-32" is BBN's network: two last blocks side by side, 128 features, one part of the
    head for each block (K = 2). Its published alphas for the corrector ``tde`` belong to that network. Other backbones
    stay as they are. On ImageNet-LT the original changes brightness, contrast and saturation by up to `jitter`; the
    paper's own rows crop and flip only.

    The original trains on CIFAR with batches of 256 at a rate of 0.2; batch size and rate here are the cell's, 128 and
    0.1.

    Attributes
    ----------
    jitter : float, default 0.4

    References
    ----------
    Tang, Huang and Zhang 2020, Long-Tailed Classification by Keeping the Good and Removing the Bad Momentum Causal
    Effect.
    """

    name: ClassVar[str] = "de-confound"
    head: ClassVar[str | None] = "causal-norm"
    jitter: float = 0.4

    def backbone(self, name: str) -> str:
        """BBN's network instead of a ResNet for CIFAR."""
        return f"{name}-bbn" if name in ("resnet32", "resnet8") else name

    def batches(self, setting: Setting) -> EpochBatches:
        """With colour jitter on ImageNet-LT."""
        from energyalign.experiments.data.file_images import FileImages

        images = setting.train
        if setting.config.dataset == "imagenet-lt" and isinstance(images, FileImages):
            images = replace(images, preparation=replace(images.preparation, jitter=self.jitter))
        return replace(setting, train=images).loader()
