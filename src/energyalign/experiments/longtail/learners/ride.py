"""RIDE: experts on shared first blocks, trained to differ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.experiments.longtail.learners.ce_drw import Deferred
from energyalign.experiments.train.recipe import SGD, Recipe

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.engine.config import Preset
    from energyalign.experiments.longtail.experiment import Setting
    from energyalign.experiments.nets.network import Network
    from energyalign.experiments.train.loop import Loss


@dataclass(frozen=True)
class Ride(Deferred):
    """Three experts with a cosine head each. Their mean predicts; each has LDAM's loss less a reward for differing.

    The loss is that of `ride_loss`. For four fifths of the way temperatures are 1 and classes weigh alike; from then on
    rarer classes are colder (`class_temperatures`) and weigh more, as in `LdamDrw`.

    Built is the first stage of the original. Left out: the second, a router that learns which images need how many
    experts, and so saves time but no errors; and distillation from six experts. On ResNet-32 and the small CNN the
    experts have three quarters of the channels, as in the original; on those of torchvision they have all.

    Diversity and spread are the released ones of CIFAR (0.45, 0.05), ImageNet-LT (0.2, 0.02) and iNaturalist (0.2,
    0.015), as is the weight decay of 5e-4 on CIFAR and 2e-4 on others, with Nesterov's momentum; a cell with a cosine
    keeps it, where the original lowers the rate in steps.

    Attributes
    ----------
    diversity, spread : float
    photograph_diversity, photograph_spread : float
        The same on photographs.
    inaturalist_spread : float
    largest_margin, beta : float
        Of LDAM, and of its late weights.

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
        """LDAM's steps with the original's SGD, if it is SGD; Nesterov's momentum needs a momentum."""
        recipe = super().recipe(preset).with_weight_decay(5e-4 if preset.on_cifar else 2e-4)
        if not isinstance(recipe.optimizer, SGD):
            return recipe
        return replace(recipe, optimizer=replace(recipe.optimizer, nesterov=recipe.optimizer.momentum > 0))

    def network(self, setting: Setting) -> Network:
        """The experts."""
        from energyalign.experiments.nets.ride import make_experts

        config = setting.config
        return make_experts(
            config.backbone, setting.train.n_classes, scale=config.scale,
            in_channels=int(setting.train.read(0).shape[0]),
        )  # fmt: skip

    def loss(self, setting: Setting) -> Loss:
        """The sum over the experts."""
        import torch

        from energyalign.experiments.losses.class_balanced import class_balanced_weights
        from energyalign.experiments.losses.ldam import ldam_margins
        from energyalign.experiments.losses.ride import class_temperatures, ride_loss

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
