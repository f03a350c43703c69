"""Methods of long-tailed tables, the paper's and newer ones: each a learner and a corrector."""

from __future__ import annotations

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.config import Method, look_up
from energyalign.experiments.longtail.learners import LEARNERS

METHODS: dict[str, Method] = {
    "ce": Method("ce", "raw", "cross-entropy, without a correction", ""),
    "focal": Method("focal", "raw", "less weight on easy samples", "Lin et al. 2017"),
    "mixup": Method("mixup", "raw", "trains on mixtures of two images", "Zhang et al. 2018"),
    "manifold-mixup": Method("manifold-mixup", "raw", "trains on mixtures of two features", "Verma et al. 2019"),
    "ce-drw": Method("ce-drw", "raw", "re-weights classes late in training", "Cao et al. 2019"),
    "ce-drs": Method("ce-drs", "raw", "re-samples classes late in training", "Cao et al. 2019"),
    "cb-focal": Method("cb-focal", "raw", "focal loss weighted by the effective number of images", "Cui et al. 2019"),
    "ldam-drw": Method("ldam-drw", "raw", "larger margins for rarer classes, re-weighted late", "Cao et al. 2019"),
    "bbn": Method("bbn", "raw", "two branches, one of them with reversed sampling", "Zhou et al. 2020"),
    "oltr": Method("oltr-stage-1", "oltr", "features enriched from class centroids", "Liu et al. 2019", "linear"),
    "decouple-oltr": Method("ce", "oltr", "OLTR's second stage after a full first one", "Kang et al. 2020", "linear"),
    "ncm": Method("ce", "ncm", "nearest class mean of the features", "Kang et al. 2020", "linear"),
    "crt": Method("ce", "crt", "the head retrained on balanced classes", "Kang et al. 2020", "linear"),
    "tau-norm": Method("ce", "tau-norm", "weights divided by a power of their norm", "Kang et al. 2020", "linear"),
    "lws": Method("ce", "lws", "a learned scale for each class", "Kang et al. 2020", "linear"),
    "capsule": Method("ce", "raw", "cosine head with squashed features", "Liu et al. 2019", "capsule"),
    "de-confound": Method("de-confound", "raw", "multi-head normalised classifier", "Tang et al. 2020"),
    "de-confound-tde": Method(
        "de-confound", "tde", "de-confound without the direction of the mean feature", "Tang et al. 2020"
    ),
    "cosine-tde": Method(
        "ce", "tde", "cosine head, without the direction of the mean feature", "Tang et al. 2020", "cosine"
    ),
    "capsule-tde": Method(
        "ce", "tde", "capsule head, without the direction of the mean feature", "Tang et al. 2020", "capsule"
    ),
    "la-post-hoc": Method("ce", "logit-adjustment", "logits minus the log prior", "Menon et al. 2021"),
    "la-loss": Method(
        "la-loss", "raw", "log prior added to the logits in training; the same as Balanced Softmax",
        "Menon et al. 2021; Ren et al. 2020",
    ),
    "la-loss-ldam": Method("la-loss-ldam", "raw", "la-loss with LDAM's margins", "Menon et al. 2021"),
    "ea": Method("ce", "ea", "energy aligning as in the paper", "Zhao et al. 2021"),
    "lade": Method(
        "lade", "raw", "la-loss, and logits pulled to log ratios of densities", "Hong et al. 2021", "linear",
        in_paper=False,
    ),
    "disalign": Method(
        "ce", "disalign", "a learned scale and shift for each class, weighted by a confidence",
        "Zhang et al. 2021", "linear", in_paper=False,
    ),
    "mislas": Method(
        "mixup", "mislas", "mixup, then the head retrained on balanced classes, common ones smoothed more",
        "Zhong et al. 2021", "linear", in_paper=False,
    ),
    "ride": Method(
        "ride", "raw", "three experts on shared first blocks, trained to differ", "Wang et al. 2021", in_paper=False
    ),
    "repair": Method(
        "ce", "repair", "the ten largest logits re-ranked: an offset per class, and a term for pairs",
        "arXiv 2604.01506", in_paper=False,
    ),
}  # fmt: skip
_SAME = {"balanced-softmax": "la-loss"}


def find_method(name: str) -> Method:
    """Look up a method by name."""
    if name in _SAME:
        raise EnergyAlignError(f"unknown method {name!r}: it is the same as {_SAME[name]}; give that name.")
    return look_up(METHODS, name, "method")


def head_of(learner: str) -> str:
    """Return the head of a learner's rows: its own, or cosine as in the paper."""
    known = LEARNERS.get(learner)  # users' own learners are not registered
    return (known.head if known else None) or "cosine"


def name_of(learner: str, head: str, corrector: str) -> str:
    """Return the name of the method, or ``learner + corrector`` if it has none."""
    for name, method in METHODS.items():
        if (method.learner, method.head or head_of(learner), method.corrector) == (learner, head, corrector):
            return name
    variant = "" if head == head_of(learner) else f" ({head})"
    return f"{learner}{variant} + {corrector}"
