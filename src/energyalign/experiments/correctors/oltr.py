"""The second stage of OLTR: features enriched from class centroids, under a capsule head."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.correctors.base import Corrected, Corrector, RunSetting, refuse_steps
from energyalign.experiments.correctors.ncm import class_means
from energyalign.experiments.correctors.second_stage import epochs_of_cell, train_second_stage
from energyalign.experiments.nets.registry import BACKBONES
from energyalign.experiments.train.randomness import seed_torch
from energyalign.experiments.train.recipe import Steps

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.data.images import ImageSet
    from energyalign.experiments.engine.config import EvidencePlan
    from energyalign.experiments.engine.trained import Trained
    from energyalign.experiments.nets.oltr import OltrNetwork


@dataclass(frozen=True)
class Oltr(Corrector):
    """Modulated attention in the backbone, features enriched from a memory of class centroids, a capsule head.

    The whole network is trained with class-aware sampling for two thirds of the epochs of the cell; the rate falls to a
    tenth after each third (the original: 60 epochs, every 20). With features x, centroids c and embeddings x' of
    `MetaEmbedding`::

        z = scale * |x'| / (1 + |x'|) * cos(x', w)
        loss = CE(z, y) + weight * (|x - c_y|^2 / 2 + repel * max(0, margin - mean_{j != y} |x - c_j|^2))

    What the paper leaves open follows the released code: backbone and centroids learn at a tenth of the rate; centroids
    start at the class means of the first stage and learn from the second term only, whose distances are squared;
    ``W_h`` starts from the head of the first stage if that is linear, else from random weights. Two things differ: the
    released code divides the gradient of the centroids by the number of images of the class in the batch, which is not
    done here, and there is no fully connected layer between backbone and memory, so the number of features does not
    change.

    Attributes
    ----------
    part : float, default 2/3
        Share of the epochs of the cell.
    slower : float, default 0.1
        Learning rate of backbone and centroids relative to the other layers.
    reach, scale, weight, repel, margin : float, default 10, 16, 0.01, 0.01 and 10
        As above; `reach` is a parameter of `MetaEmbedding`.

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

    def check(self, setting: RunSetting) -> None:
        from energyalign.experiments.nets.oltr import add_modulated_attention

        refuse_steps(setting, "oltr")
        config = setting.config
        if config.freeze or config.backbone not in BACKBONES:
            why = "--freeze freezes it" if config.freeze else f"{config.backbone} returns only features"
            raise EnergyAlignError(
                f"oltr adds attention after the last maps of the backbone and trains it, and {why}: leave out oltr."
            )
        image = _read_image(setting.train, "cpu")
        add_modulated_attention(BACKBONES[config.backbone].make(image.shape[1]), image)

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        config, network = trained.config, self._make_network(trained)
        new = [*network.memory.recall.parameters(), *network.memory.select.parameters(), *network.head.parameters()]
        slow = [*network.backbone.parameters(), network.memory.centroids]
        recipe = replace(config.recipe, epochs=epochs_of_cell(config, self.part), schedule=Steps((21, 41), 0.1, 60))
        train_second_stage(
            trained, network, self, name="oltr", recipe=recipe,
            parameters=[{"params": new}, {"params": slow, "lr_factor": self.slower}], loss=_loss,
        )  # fmt: skip
        return Corrected(network, details={"epochs": recipe.epochs})

    def _make_network(self, trained: Trained) -> OltrNetwork:
        import torch

        from energyalign.experiments.nets.heads import make_head
        from energyalign.experiments.nets.oltr import MetaEmbedding, OltrNetwork, add_modulated_attention

        seed_torch(trained.config.seed, "oltr", "network")
        backbone = copy.deepcopy(trained.network.backbone)
        add_modulated_attention(backbone, _read_image(trained.train, trained.fabric.device))
        means = class_means(trained.train_features, trained.train.labels, trained.n_seen)
        memory = MetaEmbedding(torch.from_numpy(means).float(), self.reach)
        if isinstance(trained.network.head, torch.nn.Linear):
            memory.recall.load_state_dict(trained.network.head.state_dict())
        head = make_head("capsule", backbone.n_features, trained.n_seen, scale=self.scale)
        return OltrNetwork(backbone, memory, head, weight=self.weight, repel=self.repel, margin=self.margin)


def _loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
    return model(batch.images, batch.labels)


def _read_image(images: ImageSet, device: torch.device | str) -> torch.Tensor:
    """Return the first image, prepared for evaluation, in a batch of one."""
    from energyalign.experiments.data.loader import evaluation_batches

    return next(evaluation_batches(images, batch_size=1, device=device)).images
