"""PODNet: distillation of pooled maps, and several proxies for each class."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.incremental.learners.balanced import (
    divide_epochs,
    lower_rate,
    refuse_no_exemplars,
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

    NCA is `nca_loss` with a margin, on the logits of `ProxyHead`. x are features, and POD compares the maps after each
    stage of the backbone (`pooled_outputs`). Both compare the network with the network of the step before.

    1. Training on all images of the step. Proxies of new classes start at the k-means centres of their features, scaled
       to the mean length of the old proxies, which are kept fixed. Distillation starts with the second step.
    2. From the second step on, all proxies are trained by NCA on a frozen backbone, at half the rate, on as many images
       of each new class as of an old one, chosen by herding.

    The stages share the epochs of the cell in the original's proportion, 160 to 20, and the second has at least the 320
    batches of the original on CIFAR. The head predicts (PODNet-CNN); with the corrector ``nme`` the nearest mean of
    exemplars does (PODNet-NME).

    NCA follows the paper: the released code subtracts the margin from all classes, so that it has no effect, and has no
    hinge. The scale gets no gradient through the margin, which it multiplies: uninformative features would shrink the
    scale until it is negative, and then wrong answers satisfy the loss (on digits 0.7 % were right after three steps).
    Similarities are cosines, where the code has squared distances of directions, ``2 cos - 2``. Maps and features are
    taken after a ReLU; the original takes them before it. The original clips gradients at 5; here they are not clipped.

    Attributes
    ----------
    margin : float, default 0.6
        In units of the cosine.
    flat, spatial : float, default 1 and 3
        Weights of the two distillations.
    flat_on_imagenet, spatial_on_imagenet : float, default 10 and 8
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
        from energyalign.experiments.nets.podnet import stages_of

        refuse_no_exemplars(config)
        if config.backbone not in BACKBONES:
            raise EnergyAlignError(
                f"podnet compares the maps of stages, and {config.backbone} returns only features: choose a backbone "
                "such as resnet32 or small-cnn, or another method."
            )
        stages_of(BACKBONES[config.backbone].make())
        if config.compile:
            raise EnergyAlignError("podnet reads maps inside the network, which --compile hides: leave out --compile.")

    def start(self, step: Step, before: Network | None) -> Network:
        from energyalign.experiments.nets.podnet import PodNetwork, ProxyHead

        network = super().start(step, before)
        if before is not None:
            return network
        head = ProxyHead(network.backbone.n_features, step.n_seen).to(step.fabric.device)
        return PodNetwork(network.backbone, head)

    def learn(self, step: Step, network: Network, teacher: torch.nn.Module | None) -> None:  # noqa: ARG002
        if step.number == 1:
            step.train_network(network, self.nca(network))
            return
        import torch

        first, second = divide_epochs(step.recipe, STAGE_1, STAGE_2)
        old = network.head.weight.detach()[: step.n_old].clone()
        imprint(step, network)
        loss = self.distilling_loss(step, network, copy.deepcopy(network.backbone).eval().requires_grad_(False))

        def keep_old() -> None:
            with torch.no_grad():
                network.head.weight[: step.n_old] = old

        def loss_of_new(model: torch.nn.Module, batch: Any, epoch: int) -> torch.Tensor:
            keep_old()
            return loss(model, batch, epoch)

        step.train_network(network, loss_of_new, recipe=first)
        keep_old()
        recipe = replace(lower_rate(second, 2), schedule=Constant())
        train_balanced_head(step, network, self.nca(network), recipe, min_batches=MIN_BATCHES)

    def nca(self, network: Network) -> Loss:
        """Return the loss without distillation."""

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            return nca_loss(model(batch.images), batch.labels, self.margin * network.head.scale.detach())

        return loss

    def distilling_loss(self, step: Step, network: Network, before: torch.nn.Module) -> Loss:
        """Return the loss with distillation from the backbone `before`."""
        import torch
        from torch.nn import functional as F

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


def nca_loss(logits: torch.Tensor, labels: torch.Tensor, margin: torch.Tensor | float) -> torch.Tensor:
    """Return the batch mean of ``max(0, -log(exp(z_y - margin) / sum over i != y of exp(z_i)))``.

    Unlike cross-entropy it leaves the true class out of the sum, and it is zero once that class is far enough ahead.
    The margin is in units of the logits.

    References
    ----------
    Goldberger et al. 2005, Neighbourhood Components Analysis; Douillard et al. 2020, PODNet, equation 8.
    """
    import torch
    from torch.nn import functional as F

    is_right = F.one_hot(labels, logits.shape[1]).bool()
    others = logits.masked_fill(is_right, -torch.inf).logsumexp(dim=1)
    return F.relu(others - (logits[is_right] - margin)).mean()


def pooled_outputs(before: Sequence[torch.Tensor], now: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return ``|p(before) - p(now)|``, averaged over the batch and the maps of the stages (PODNet, equation 4).

    p squares maps of shape (n, channels, height, width), sums them over the width and over the height, concatenates
    both sums and normalises them to length one. So content may move along a row or a column, but not along both.
    """
    import torch
    from torch.nn import functional as F

    def pool(maps: torch.Tensor) -> torch.Tensor:
        squares = maps.square()
        return F.normalize(torch.cat([squares.sum(dim=3).flatten(1), squares.sum(dim=2).flatten(1)], dim=1))

    pairs = zip(before, now, strict=True)
    distances = [torch.linalg.vector_norm(pool(old) - pool(new), dim=1).mean() for old, new in pairs]
    return torch.stack(distances).mean()


def imprint(step: Step, network: Network) -> None:
    """Set the proxies of new classes to the k-means centres of their features."""
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
        rows.append(centres[np.arange(head.n_proxies) % n_centres].ravel())  # repeat centres of classes with few images
    with torch.no_grad():
        length = torch.linalg.vector_norm(head.proxies()[: step.n_old], dim=2).mean()
        centres = torch.from_numpy(np.stack(rows)).to(head.weight)
        head.weight[step.n_old :] = length * centres
