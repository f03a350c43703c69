"""Temperature scaling behind any corrector: predictions stay, and are as sure as the evidence says."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from energyalign.core.calibration import fit_temperature
from energyalign.experiments.correctors.base import Corrected, Corrector, RunSetting, refuse_no_memory

if TYPE_CHECKING:
    from energyalign.experiments.engine.config import EvidencePlan
    from energyalign.experiments.engine.trained import Trained

_KNOWN = (
    "the evidence asks for the temperature {:.2f}, which would make the network more sure: these are training images, "
    "and it may know them by heart. It stays as it is; draw harder evidence, for example --evidence-policy two."
)


@dataclass(frozen=True)
class TemperatureScaled(Corrector):
    """Scores ``s / T`` of a corrected network, with the one T > 0 that makes the likelihood of the evidence largest.

    In the original T is fitted on held-out images. Here it is fitted on the evidence of the plan, which is drawn from
    the training images: it helps as far as these, augmented, are as hard as others. A network that knows them by heart
    asks for T < 1; then logits stay as they are.

    Attributes
    ----------
    inner : Corrector
        What comes before.

    References
    ----------
    Guo, Pleiss, Sun, Weinberger (2017), On Calibration of Modern Neural Networks.
    """

    inner: Corrector
    reads_evidence: ClassVar[bool] = True
    first_step: ClassVar[int] = 1

    @property
    def held_out(self) -> float:  # type: ignore[override]
        """As the inner one needs."""
        return self.inner.held_out

    def check(self, setting: RunSetting) -> None:
        """Evidence takes images of every class."""
        self.inner.check(setting)
        refuse_no_memory(setting, "a temperature needs training images of every class seen")

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:
        """The corrected network with its scores divided."""
        from energyalign.experiments.nets.corrected_heads import TemperedHead

        before = self.inner.apply(trained, plan)
        said = trained.evidence_scores(before.network, plan)
        labels = [block.numpy() for block in said.labels if block is not None]
        temperature = fit_temperature(list(zip(said.blocks, labels, strict=True)))
        known = before.gives_logits and temperature < 1
        doubts = (_KNOWN.format(temperature),) if known else ()
        temperature = 1.0 if known else temperature
        network = before.network
        if network.backbone is trained.network.backbone:
            network = trained.with_head(TemperedHead(network.head, temperature))
        else:
            network = copy.deepcopy(network)
            network.head = TemperedHead(network.head, temperature)
        concerns = () if before.shifts is None else before.shifts.concerns
        details = {**before.details, "temperature": temperature}
        return Corrected(network, details=details, concerns=(*concerns, *before.concerns, *doubts))
