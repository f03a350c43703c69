"""Methods of incremental tables, the paper's and newer ones: each a learner, a memory and a corrector."""

from __future__ import annotations

from energyalign.experiments.engine.config import Method, look_up
from energyalign.experiments.incremental.learners import LEARNERS

METHODS: dict[str, Method] = {
    "fine-tuning": Method("fine-tune", "raw", "continues training, with exemplars only", "",
                          "linear", "random"),
    "ft-th": Method("fine-tune", "logit-adjustment", "fine-tuning, outputs divided by the prior",
                    "Belouadah and Popescu 2020", "linear", "random"),
    "lwf": Method("lwf", "raw", "distils the former network, without exemplars", "Li and Hoiem 2017", "linear", "none"),
    "icarl": Method("icarl", "nme", "nearest mean of the exemplars", "Rebuffi et al. 2017", "linear", "herding"),
    "eeil": Method("eeil", "raw", "a balanced second stage", "Castro et al. 2018", "linear", "herding"),
    "bic": Method("bic", "bic", "a scale and a shift for new classes, learned on held-out images", "Wu et al. 2019",
                  "linear", "herding"),
    "rps": Method("rps", "raw", "random paths through a wide network", "Rajasegaran et al. 2019", "linear", "random"),
    "il2m": Method("fine-tune", "il2m", "scores rectified by statistics of former steps",
                   "Belouadah and Popescu 2019", "linear", "random"),
    "scail": Method("fine-tune", "scail", "initial weights of old classes, scaled to the new ones",
                    "Belouadah and Popescu 2020", "linear", "random"),
    "wa": Method("wa", "wa", "weights of new classes scaled to the length of old ones", "Zhao et al. 2020", "linear",
                 "random"),
    "distill": Method("distill", "raw", "rehearsal and distillation, not corrected", "Wu et al. 2019",
                      memory="random"),
    "ea": Method("distill", "ea", "energy aligning as in the paper", "Zhao et al. 2021", memory="random"),
    "ea-linear": Method("distill", "ea", "ea with a linear head", "Zhao et al. 2021", "linear", "random"),
    "joint": Method("joint", "raw", "all images of all classes, the upper bound", "", memory="all"),
    "podnet": Method("podnet", "raw", "pooled maps distilled, several proxies for each class", "Douillard et al. 2020",
                     memory="herding", in_paper=False),
    "der": Method("der", "raw", "a new backbone in every step, without pruning", "Yan et al. 2021", "linear", "herding",
                  in_paper=False),
    "foster": Method("foster", "raw", "a second backbone, then both distilled into one", "Wang et al. 2022", "linear",
                     "herding", in_paper=False),
    "ncm": Method("fine-tune", "ncm", "nearest class mean, of exemplars for old classes", "Mensink et al. 2013",
                  "linear", "random", in_paper=False),
    "slda": Method("slda", "raw", "running class means and one covariance, on frozen features", "Hayes and Kanan 2020",
                   "linear", "none", in_paper=False),
    "ranpac": Method("ranpac", "raw", "ridge regression on random projections of frozen features",
                     "McDonnell et al. 2023", "linear", "none", in_paper=False),
}  # fmt: skip


def find_method(name: str) -> Method:
    """Look up a method by name."""
    return look_up(METHODS, name, "method")


def head_of(learner: str) -> str:
    """Return the head of a learner's rows: its own, or cosine as in the paper."""
    known = LEARNERS.get(learner)  # users' own learners are not registered
    return (known.head if known else None) or "cosine"
