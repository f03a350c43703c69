"""The second stage of OLTR: features enriched from class centroids, in front of a capsule head."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional as F

from energyalign.data.loader import evaluation_batches
from energyalign.experiment.class_means import class_means
from energyalign.longtail.correctors.base import Corrected
from energyalign.longtail.second_stage import epochs_of_cell, train_second_stage
from energyalign.nets.heads import make_head
from energyalign.nets.meta_embedding import MetaEmbedding, centroid_loss
from energyalign.nets.modulated_attention import add_modulated_attention
from energyalign.nets.network import Network
from energyalign.train.randomness import seed_torch
from energyalign.train.schedule import Steps

if TYPE_CHECKING:
    from energyalign.data.images import ImageSet
    from energyalign.experiment.evidence import EvidencePlan
    from energyalign.longtail.setting import Setting
    from energyalign.longtail.trained import Trained


@dataclass(frozen=True)
class Oltr:
    """Modulated attention in the backbone, features enriched from a memory of class centroids, a capsule head.

    Trained as a whole with class-aware sampling for two thirds of the epochs of the cell, a third of the stage at each
    rate, x 0.1 (the original: 60 epochs, every 20). With features x, centroids c and embeddings x' of `MetaEmbedding`::

        z = scale * |x'| / (1 + |x'|) * cos(x', w)
        loss = CE(z, y) + weight * (|x - c_y|^2 / 2 + repel * max(0, margin - mean_{j != y} |x - c_j|^2))

    Where the paper leaves it open we follow the released code: the backbone learns at a tenth of the rate, as the
    centroids do; centroids start from the class means of the first stage and learn from the second term alone;
    distances in it are squared; ``W_h`` starts from the head of the first stage if that is a linear one, and anew
    otherwise. Two things are ours: the gradient of the centroids is that of the loss, which the released code divides
    by the number of images of the class in the batch, and there is no fully connected layer between backbone and
    memory, so that features keep their number.

    Attributes
    ----------
    part : float
        Of the epochs of the cell.
    slower : float
        The learning rate of backbone and centroids, as a part of that of the rest.
    reach, scale, weight, repel, margin : float
        As above; `reach` is the 10 of `MetaEmbedding`.

    References
    ----------
    Liu et al. 2019, Large-Scale Long-Tailed Recognition in an Open World.
    """

    part: float = 2 / 3
    slower: float = 0.1
    reach: float = 10.0
    scale: float = 16.0
    weight: float = 0.01
    repel: float = 0.01
    margin: float = 10.0

    @property
    def reads_evidence(self) -> bool:
        """It looks at training batches."""
        return False

    def check(self, setting: Setting) -> None:
        """Attention must have a place in the backbone."""
        add_modulated_attention(setting.config.learner.network(setting).backbone, _image(setting.train, "cpu"))

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        """The test images under the new network."""
        config = trained.setting.config
        network = self._network(trained)
        new = [*network.memory.recall.parameters(), *network.memory.select.parameters(), *network.head.parameters()]
        slow = [*network.backbone.parameters(), network.memory.centroids]
        recipe = replace(config.recipe, epochs=epochs_of_cell(config, self.part), schedule=Steps((21, 41), 0.1, 60))
        train_second_stage(
            trained, network, self, name="oltr", recipe=recipe,
            parameters=[{"params": new}, {"params": slow, "lr_factor": self.slower}], loss=_loss,
        )  # fmt: skip
        return Corrected(trained.outputs(network, trained.data.test), details={"epochs": recipe.epochs})

    def _network(self, trained: Trained) -> OltrNetwork:
        train = trained.data.train
        seed_torch(trained.setting.config.seed, "oltr", "network")
        backbone = copy.deepcopy(trained.network.backbone)
        add_modulated_attention(backbone, _image(train, trained.fabric.device))
        means = class_means(trained.train_features, train.labels, train.n_classes)
        memory = MetaEmbedding(torch.from_numpy(means).float(), self.reach)
        if isinstance(trained.network.head, nn.Linear):
            memory.recall.load_state_dict(trained.network.head.state_dict())
        head = make_head("capsule", backbone.n_features, train.n_classes, scale=self.scale)
        return OltrNetwork(backbone, memory, head, weight=self.weight, repel=self.repel, margin=self.margin)


class OltrNetwork(Network):
    """Images to features to embeddings to logits; with labels, the loss of the batch."""

    def __init__(
        self, backbone: nn.Module, memory: MetaEmbedding, head: nn.Module, *, weight: float, repel: float, margin: float
    ) -> None:
        super().__init__(backbone, head)
        self.memory = memory
        self.weight, self.repel, self.margin = weight, repel, margin

    def forward(self, images: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        """Logits, one column per class, or the loss."""
        features = self.features(images)
        logits = self.head(self.memory(features))
        if labels is None:
            return logits
        near = centroid_loss(features, labels, self.memory.centroids, margin=self.margin, repel=self.repel)
        return F.cross_entropy(logits, labels) + self.weight * near


def _loss(model: nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
    return model(batch.images, batch.labels)


def _image(images: ImageSet, device: torch.device | str) -> torch.Tensor:
    """An image as networks see it, in a batch of one."""
    return next(evaluation_batches(images, batch_size=1, device=device)).images
