"""Plain cross-entropy; base class of all long-tailed learners."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.experiments.engine.config import Learner

if TYPE_CHECKING:
    from energyalign.experiments.longtail.experiment import Setting
    from energyalign.experiments.nets.network import Network
    from energyalign.experiments.train.loop import EpochBatches, Loss


@dataclass(frozen=True)
class CrossEntropy(Learner):
    """Cross-entropy on the data as they come. Other learners inherit from it and override what they do differently."""

    name: ClassVar[str] = "ce"
    scale: ClassVar[float | None] = None
    """The scale of its cosine head."""

    def network(self, setting: Setting) -> Network:
        """The untrained network. `setting.config` says which, after `backbone`, `head` and `scale` had their say."""
        from energyalign.experiments.engine.trained import network_for

        return network_for(setting.config, setting.train, setting.train.n_classes)

    def parameters(self, network: Network) -> Iterable[Any]:
        """What the optimiser gets: parameters, or groups of them."""
        parameters: Iterable[Any] = network.parameters()
        return parameters

    def batches(self, setting: Setting) -> EpochBatches:
        """What the loss gets."""
        return setting.loader()

    def loss(self, setting: Setting) -> Loss:  # noqa: ARG002
        """``loss(model, batch, epoch)``, the mean over the batch; epochs count from 1."""
        from energyalign.experiments.losses.cross_entropy import cross_entropy

        return cross_entropy
