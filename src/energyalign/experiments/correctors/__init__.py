"""Correctors, for both applications. To add one, write a file and a line here."""

from __future__ import annotations

from typing import NamedTuple

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.correctors.base import Corrected, Corrector
from energyalign.experiments.correctors.bic import BiasCorrection
from energyalign.experiments.correctors.decoupling import ClassifierRetraining, LearnableWeightScaling
from energyalign.experiments.correctors.disalign import DistributionAlignment
from energyalign.experiments.correctors.il2m import IL2M
from energyalign.experiments.correctors.mislas import LabelAwareSmoothing
from energyalign.experiments.correctors.ncm import NearestClassMean
from energyalign.experiments.correctors.nme import NearestMeanOfExemplars
from energyalign.experiments.correctors.oltr import Oltr
from energyalign.experiments.correctors.repair import Repair
from energyalign.experiments.correctors.scail import ScaIL
from energyalign.experiments.correctors.shifts import Raw, ShiftCorrector
from energyalign.experiments.correctors.statistics import RanPacHead, Slda
from energyalign.experiments.correctors.tau_norm import TauNorm
from energyalign.experiments.correctors.tde import Tde
from energyalign.experiments.correctors.temperature import TemperatureScaled
from energyalign.experiments.correctors.wa import WeightAligning

BOTH, LONG_TAIL, IN_STEPS = "both", "long tail", "in steps"


class CorrectorEntry(NamedTuple):
    """A row of the registry; `serves` is `BOTH`, `LONG_TAIL` or `IN_STEPS`."""

    corrector: Corrector
    serves: str
    description: str
    reference: str


CORRECTORS: dict[str, CorrectorEntry] = {
    "raw": CorrectorEntry(Raw(), BOTH, "the network as trained", ""),
    "logit-adjustment": CorrectorEntry(
        ShiftCorrector("prior", "per-class", "per-class"), BOTH, "logits minus the log prior of the training images",
        "Menon et al. 2021; Belouadah and Popescu 2020",
    ),
    "ea": CorrectorEntry(
        ShiftCorrector("lse", "jenks", feeds_back=True), BOTH,
        "energy aligning as in the paper: log-sum-exp; the best number of Jenks clusters, or one shift for all new "
        "classes, which the next teacher carries", "Zhao et al. 2021",
    ),
    "ea-marginal": CorrectorEntry(
        ShiftCorrector("marginal", "monotone"), BOTH,
        "energies from the mean posterior; monotone in the counts, or one shift for all new classes", "energyalign",
    ),
    "ea-shrunk": CorrectorEntry(
        ShiftCorrector("shrunk", "per-class", "per-class"), BOTH,
        "empirical Bayes: the log prior of the training images, corrected per class where the evidence is strong",
        "energyalign",
    ),
    "ea-auto": CorrectorEntry(
        ShiftCorrector("auto", "auto", "auto"), BOTH, "estimator and sharing chosen on the evidence", "energyalign"
    ),
    "tde": CorrectorEntry(Tde(), BOTH, "removes the direction of the mean feature", "Tang et al. 2020"),
    "tau-norm": CorrectorEntry(TauNorm(), BOTH, "weights divided by a power of their length", "Kang et al. 2020"),
    "ncm": CorrectorEntry(NearestClassMean(), BOTH, "nearest class mean of the features", "Kang et al. 2020"),
    "slda": CorrectorEntry(
        Slda(), LONG_TAIL, "linear discriminant analysis of the features; in steps a learner", "Hayes and Kanan 2020"
    ),
    "ranpac": CorrectorEntry(
        RanPacHead(), LONG_TAIL, "ridge regression on random projections of the features; in steps a learner",
        "McDonnell et al. 2023",
    ),
    "crt": CorrectorEntry(
        ClassifierRetraining(), LONG_TAIL, "the head retrained on balanced classes", "Kang et al. 2020"
    ),
    "crt-frozen": CorrectorEntry(
        ClassifierRetraining(frozen_statistics=True), LONG_TAIL,
        "crt with the batch statistics of the first stage", "Kang et al. 2020",
    ),
    "lws": CorrectorEntry(LearnableWeightScaling(), LONG_TAIL, "a learned scale for each class", "Kang et al. 2020"),
    "lws-frozen": CorrectorEntry(
        LearnableWeightScaling(frozen_statistics=True), LONG_TAIL,
        "lws with the batch statistics of the first stage", "Kang et al. 2020",
    ),
    "oltr": CorrectorEntry(
        Oltr(), LONG_TAIL, "a second stage with features enriched from class centroids", "Liu et al. 2019"
    ),
    "disalign": CorrectorEntry(
        DistributionAlignment(), LONG_TAIL, "a learned scale and shift for each class, weighted by a confidence",
        "Zhang et al. 2021",
    ),
    "mislas": CorrectorEntry(
        LabelAwareSmoothing(), LONG_TAIL, "head and scales trained on balanced classes, common classes smoothed more",
        "Zhong et al. 2021",
    ),
    "repair": CorrectorEntry(
        Repair(), BOTH, "the ten largest logits re-ranked: an offset per class, and a term for pairs",
        "arXiv 2604.01506",
    ),
    "bic": CorrectorEntry(
        BiasCorrection(), IN_STEPS,
        "a scale and a shift for new classes, from held-out images; the next teacher carries them", "Wu et al. 2019",
    ),
    "wa": CorrectorEntry(
        WeightAligning(), IN_STEPS,
        "weights of new classes scaled to the mean length of old ones; the next step continues from them",
        "Zhao et al. 2020",
    ),
    "il2m": CorrectorEntry(
        IL2M(), IN_STEPS, "logits of old classes rescaled by their mean when the classes were new",
        "Belouadah and Popescu 2019",
    ),
    "il2m-softmax": CorrectorEntry(
        IL2M(softmax=True), IN_STEPS, "il2m on softmax outputs instead of logits", "Belouadah and Popescu 2019"
    ),
    "scail": CorrectorEntry(
        ScaIL(), IN_STEPS, "initial weights of old classes, scaled to the new ones", "Belouadah and Popescu 2020"
    ),
    "nme": CorrectorEntry(NearestMeanOfExemplars(), IN_STEPS, "nearest mean of the exemplars", "Rebuffi et al. 2017"),
}  # fmt: skip
STANDARD = ("raw", "logit-adjustment", "ea", "ea-marginal", "ea-auto")
STANDARD_IN_STEPS = ("raw", "logit-adjustment", "ea", "ea-marginal")
"""The default correctors of every table; together they cost one pass over the evidence."""
TEMPERED = "+ts"
"""Suffix of a corrector's name for temperature scaling of its scores."""
_RENAMED = {"la-post-hoc": "logit-adjustment", "prior": "logit-adjustment"}


def find_corrector(name: str) -> Corrector:
    """Look up a corrector; ``ea-M8`` has 8 Jenks clusters, and ``+ts`` after a name adds temperature scaling."""
    if name in CORRECTORS:
        return CORRECTORS[name].corrector
    if name.endswith(TEMPERED):
        return TemperatureScaled(find_corrector(name.removesuffix(TEMPERED)))
    prefix, _, number = name.partition("-M")
    if prefix == "ea" and number.isdecimal() and int(number) >= 1:
        return ShiftCorrector("lse", int(number))
    if name in _RENAMED:
        raise EnergyAlignError(f"unknown corrector {name!r}: it is called {_RENAMED[name]}.")
    raise EnergyAlignError(
        f"unknown corrector {name!r}: choose {', '.join(CORRECTORS)}, ea-M8 for 8 clusters, "
        f"or one of these followed by {TEMPERED} for temperature scaling."
    )


__all__ = [
    "BOTH", "CORRECTORS", "STANDARD", "STANDARD_IN_STEPS", "TEMPERED", "Corrected", "Corrector", "CorrectorEntry",
    "find_corrector",
]  # fmt: skip
