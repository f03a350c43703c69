"""PODNet: pooled maps of the network of the step before are distilled, and classes have several proxies."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.incremental.learners.balanced import (
    divided,
    refuse_no_exemplars,
    slower,
    train_balanced_head,
)
from energyalign.experiments.incremental.learners.fine_tuning import FineTuning
from energyalign.experiments.nets.registry import BACKBONES
from energyalign.experiments.train.recipe import Constant

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.incremental.config import IncrementalConfig
    from energyalign.experiments.incremental.step import Step
    from energyalign.experiments.nets.network import Network
    from energyalign.experiments.train.loop import Loss

STAGE_1, STAGE_2 = 160, 20  # epochs of the original
MIN_BATCHES = 320  # 20 epochs of 2,000 images in batches of 128


@dataclass(frozen=True)
class PODNet(FineTuning):
    """``NCA + sqrt(C_seen / C_new) * (flat * (1 - cos(x_old, x)) + spatial * POD)``, then the head on balanced classes.

    NCA is `nca_loss` with a margin, on the logits of `ProxyHead`; x are features, and POD compares the maps after each
    stage of the backbone (`pooled_outputs`), both with those of the network of the step before.

    1. On all images of the step. Proxies of new classes begin as the centres of k-means on the features of their
       images, as long as the old ones are on average; those of old classes stay as they are. Distillation begins with
       the second step.
    2. From the second step on, all proxies are trained on a backbone that stays, by NCA, at half the rate, on as many
       images of each new class as there are of an old one, chosen by herding.

    Both stages share the epochs of the cell as 160 and 20 of the original's 180, and the second has at least the 320
    batches of the original on CIFAR. The head predicts (PODNet-CNN); with the corrector ``nme`` the nearest mean of
    exemplars does (PODNet-NME).

    NCA is that of the paper: the released code takes the margin from all classes alike, so that it has no effect, and
    has no hinge. The margin, which the scale multiplies, has no say in what the scale learns: features that tell
    nothing apart yet would make it smaller, then negative, and with a negative scale wrong answers satisfy the loss (on
    digits 0.7 % were right after three steps). Similarities are cosines, where the code has squared distances of
    directions, ``2 cos - 2``. Maps and features come out of a ReLU here; the original takes them before it. Its
    gradients are clipped at 5, ours not.

    Attributes
    ----------
    margin : float
        In units of the cosine.
    flat, spatial : float
        Weights of the two distillations.
    flat_on_imagenet, spatial_on_imagenet : float
        The same on ImageNet.

    References
    ----------
    Douillard et al. 2020, PODNet: Pooled Outputs Distillation for Small-Tasks Incremental Learning.
    """

    name: ClassVar[str] = "podnet"
    head: ClassVar[str | None] = "cosine"

    margin: float = 0.6
    flat: float = 1.0
    spatial: float = 3.0
    flat_on_imagenet: float = 10.0
    spatial_on_imagenet: float = 8.0

    def check(self, config: IncrementalConfig) -> None:
        """It needs exemplars, and maps that can be looked at."""
        from energyalign.experiments.nets.podnet import stages_of

        refuse_no_exemplars(config)
        if config.backbone not in BACKBONES:
            raise EnergyAlignError(f"podnet compares maps of stages, and {config.backbone} gives features alone.")
        stages_of(BACKBONES[config.backbone].make())
        if config.compile:
            raise EnergyAlignError(
                "podnet looks at maps inside the network, which compiled code hides: leave out --compile."
            )

    def start(self, step: Step, before: Network | None) -> Network:
        """With a head of proxies, whose scale is learned."""
        from energyalign.experiments.nets.podnet import PodNetwork, ProxyHead

        network = super().start(step, before)
        if before is not None:
            return network
        head = ProxyHead(network.backbone.n_features, step.n_seen).to(step.fabric.device)
        return PodNetwork(network.backbone, head)

    def learn(self, step: Step, network: Network, teacher: torch.nn.Module | None) -> None:  # noqa: ARG002
        """One stage in the first step, two in all others."""
        if step.number == 1:
            step.train_network(network, self.nca(network))
            return
        import torch

        first, second = divided(step.recipe, STAGE_1, STAGE_2)
        old = network.head.weight.detach()[: step.n_old].clone()
        imprint(step, network)
        loss = self.loss_beside(step, network, copy.deepcopy(network.backbone).eval().requires_grad_(False))

        def keep_old() -> None:
            with torch.no_grad():
                network.head.weight[: step.n_old] = old

        def loss_of_new(model: torch.nn.Module, batch: Any, epoch: int) -> torch.Tensor:
            keep_old()
            return loss(model, batch, epoch)

        step.train_network(network, loss_of_new, recipe=first)
        keep_old()
        recipe = replace(slower(second, 2), schedule=Constant())
        train_balanced_head(step, network, self.nca(network), recipe, min_batches=MIN_BATCHES)

    def nca(self, network: Network) -> Loss:
        """Without distillation."""
        from energyalign.experiments.losses.nca import nca_loss

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            return nca_loss(model(batch.images), batch.labels, self.margin * network.head.scale.detach())

        return loss

    def loss_beside(self, step: Step, network: Network, before: torch.nn.Module) -> Loss:
        """With distillation from this backbone."""
        import torch
        from torch.nn import functional as F

        from energyalign.experiments.losses.nca import nca_loss
        from energyalign.experiments.losses.pooled_outputs import pooled_outputs
        from energyalign.experiments.nets.podnet import features_and_maps

        on_imagenet = step.config.dataset == "imagenet"
        flat = self.flat_on_imagenet if on_imagenet else self.flat
        spatial = self.spatial_on_imagenet if on_imagenet else self.spatial
        factor = math.sqrt(step.n_seen / step.n_new)

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            logits, features, maps = model(batch.images, with_maps=True)
            with torch.no_grad():
                old_features, old_maps = features_and_maps(before, batch.images)
            apart = 1.0 - F.cosine_similarity(features, old_features).mean()
            kept = flat * apart + spatial * pooled_outputs(old_maps, maps)
            return nca_loss(logits, batch.labels, self.margin * network.head.scale.detach()) + factor * kept

        return loss


def imprint(step: Step, network: Network) -> None:
    """Put the centres of the features of new classes in the place of their proxies."""
    import torch
    from sklearn.cluster import KMeans

    from energyalign.experiments.correctors.ncm import directions
    from energyalign.experiments.engine.outputs import for_inference, outputs

    head = network.head
    new = step.train.subset(np.flatnonzero(step.is_new))
    features = outputs(for_inference(network).backbone, new, workers=step.workers, device=step.fabric.device)
    points = directions(features, np.zeros(features.shape[1]))
    rows = []
    for k in range(step.n_old, step.n_seen):
        own = points[new.labels == k]
        n_centres = min(head.n_proxies, len(np.unique(own, axis=0)))
        centres = KMeans(n_centres, n_init=1, random_state=step.seed("proxies", k) % 2**32).fit(own).cluster_centers_
        rows.append(centres[np.arange(head.n_proxies) % n_centres].ravel())  # of few images some stand several times
    with torch.no_grad():
        length = torch.linalg.vector_norm(head.proxies()[: step.n_old], dim=2).mean()
        centres = torch.from_numpy(np.stack(rows)).to(head.weight)
        head.weight[step.n_old :] = length * centres
