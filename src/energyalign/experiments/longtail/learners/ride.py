"""RIDE: experts on shared first blocks, trained to differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.experiments.longtail.learners.cross_entropy import with_nesterov
from energyalign.experiments.longtail.learners.deferred import Deferred

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.engine.config import Preset
    from energyalign.experiments.longtail.experiment import Setting
    from energyalign.experiments.nets.network import Network
    from energyalign.experiments.train.loop import Loss
    from energyalign.experiments.train.recipe import Recipe


@dataclass(frozen=True)
class Ride(Deferred):
    """Three experts with a cosine head each; their mean predicts, and each has LDAM's loss less a reward for differing.

    The loss is `ride_loss`. For the first 80 % of the epochs all temperatures are 1 and all classes weigh the same;
    later rarer classes have lower temperatures (`class_temperatures`) and larger weights, as in `LdamDrw`.

    This is the first stage of the original. The second stage, a router that decides how many experts an image needs, is
    left out, because it saves computation but no errors; so is distillation from six experts, which is optional in the
    original and a row of its own there. As in the original, the experts have three quarters of the channels on
    ResNet-32 and the small CNN; on torchvision's networks they have all.

    Diversity and spread are the released ones of CIFAR (0.45, 0.05), ImageNet-LT (0.2, 0.02) and iNaturalist (0.2,
    0.015). So are Nesterov's momentum and the weight decay, 5e-4 on CIFAR and 2e-4 elsewhere. A cell with a cosine
    schedule keeps it, where the original lowers the rate in steps.

    Attributes
    ----------
    diversity, spread : float
        Weight of the reward, and how much temperatures differ.
    photograph_diversity, photograph_spread, inaturalist_spread : float
        The same on photographs, and on iNaturalist.
    largest_margin, beta : float
        Largest margin of LDAM, and beta of its late weights.

    References
    ----------
    Wang et al. 2021, Long-Tailed Recognition by Routing Diverse Distribution-Aware Experts.
    """

    name: ClassVar[str] = "ride"
    head: ClassVar[str | None] = "cosine"
    has_own_backbone: ClassVar[bool] = True
    scale: ClassVar[float | None] = 30.0
    diversity: float = 0.45
    spread: float = 0.05
    photograph_diversity: float = 0.2
    photograph_spread: float = 0.02
    inaturalist_spread: float = 0.015
    largest_margin: float = 0.5
    beta: float = 0.9999

    def recipe(self, preset: Preset) -> Recipe:
        return with_nesterov(super().recipe(preset).with_weight_decay(5e-4 if preset.on_cifar else 2e-4))

    def network(self, setting: Setting) -> Network:
        from energyalign.experiments.nets.ride import make_experts

        config = setting.config
        return make_experts(
            config.backbone, setting.train.n_classes, scale=config.scale,
            in_channels=int(setting.train.read(0).shape[0]),
        )  # fmt: skip

    def loss(self, setting: Setting) -> Loss:
        import torch

        from energyalign.experiments.losses.class_balanced import class_balanced_weights
        from energyalign.experiments.losses.ldam import ldam_margins

        diversity, spread = self.diversity, self.spread
        if setting.has_photographs:
            on_inaturalist = setting.config.dataset == "inaturalist18"
            diversity = self.photograph_diversity
            spread = self.inaturalist_spread if on_inaturalist else self.photograph_spread
        margins = setting.config.scale * ldam_margins(setting.counts, self.largest_margin)
        late = class_balanced_weights(setting.counts, self.beta), class_temperatures(setting.counts, spread)
        early = None, torch.ones_like(setting.counts)

        def loss(model: torch.nn.Module, batch: Any, epoch: int) -> torch.Tensor:
            weights, temperatures = late if self.is_late(epoch, setting.n_epochs) else early
            of_each = model(batch.images, True)
            return ride_loss(of_each, batch.labels, margins, weights, temperatures=temperatures, diversity=diversity)

        return loss


def class_temperatures(counts: torch.Tensor, spread: float) -> torch.Tensor:
    """Return ``t_j ~ spread C pi_j + 1 - spread``, scaled to 1 for the largest class and lower for rarer ones."""
    shape = spread * len(counts) * counts / counts.sum() + 1.0 - spread
    return shape / shape.max()


def ride_loss(
    logits: torch.Tensor, labels: torch.Tensor, margins: torch.Tensor, weights: torch.Tensor | None = None,
    *, temperatures: torch.Tensor, diversity: float,
) -> torch.Tensor:  # fmt: skip
    """Return ``sum_e LDAM(z_e) - diversity mean(t)^2 KL(softmax(z/t) | softmax(z_e/t))``.

    `logits` are the z_e, of shape (n, n_experts, n_classes), and z is their mean, without gradients.
    """
    import torch
    from torch.nn import functional as F

    from energyalign.experiments.losses.ldam import ldam_loss

    of_all = F.softmax(logits.mean(dim=1).detach() / temperatures, dim=1)
    total = logits.new_zeros((), dtype=torch.float32)
    for own in logits.unbind(dim=1):
        apart = F.kl_div(F.log_softmax(own / temperatures, dim=1), of_all, reduction="batchmean")
        total = total + ldam_loss(own, labels, margins, weights) - diversity * temperatures.mean() ** 2 * apart
    return total
