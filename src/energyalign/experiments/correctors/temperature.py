"""Temperature scaling after any corrector: it changes confidences but no predictions."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from energyalign.core.calibration import fit_temperature
from energyalign.experiments.correctors.base import Corrected, Corrector, RunSetting, refuse_no_memory

if TYPE_CHECKING:
    from energyalign.experiments.engine.config import EvidencePlan
    from energyalign.experiments.engine.trained import Trained

_MEMORISED = (
    "the evidence suggests a temperature of {:.2f}, which would make the network more confident. These are training "
    "images, which it may have memorised, so the temperature stays 1; draw harder evidence, for example "
    "--evidence-policy two."
)


@dataclass(frozen=True)
class TemperatureScaled(Corrector):
    """Scores ``s / T`` of a corrected network, with the T > 0 that maximises the likelihood of the evidence.

    The original fits T on held-out images. Here it is fitted on evidence drawn from the training images, which helps if
    these, augmented, are as hard as new images. T < 1 suggests that the network has memorised these images; then the
    logits are unchanged.

    Attributes
    ----------
    inner : Corrector
        The corrector whose scores are divided.

    References
    ----------
    Guo, Pleiss, Sun, Weinberger (2017), On Calibration of Modern Neural Networks.
    """

    inner: Corrector
    reads_evidence: ClassVar[bool] = True
    first_step: ClassVar[int] = 1

    @property
    def held_out(self) -> float:  # type: ignore[override]
        return self.inner.held_out

    def check(self, setting: RunSetting) -> None:
        self.inner.check(setting)
        refuse_no_memory(setting)

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:
        from energyalign.experiments.nets.corrected_heads import TemperedHead

        before = self.inner.apply(trained, plan)
        scores = trained.evidence_scores(before.network, plan)
        labels = [block.numpy() for block in scores.labels if block is not None]
        temperature = fit_temperature(list(zip(scores.blocks, labels, strict=True)))
        memorised = before.gives_logits and temperature < 1
        doubts = (_MEMORISED.format(temperature),) if memorised else ()
        temperature = 1.0 if memorised else temperature
        network = before.network
        if network.backbone is trained.network.backbone:
            network = trained.with_head(TemperedHead(network.head, temperature))
        else:
            network = copy.deepcopy(network)
            network.head = TemperedHead(network.head, temperature)
        concerns = () if before.shifts is None else before.shifts.concerns
        details = {**before.details, "temperature": temperature}
        return Corrected(network, details=details, concerns=(*concerns, *before.concerns, *doubts))
