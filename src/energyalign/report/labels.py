"""What trainings are called in a figure: as few words as tell them apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.names import shown

Facet = Callable[[StoredRun], str]


def optimizer_name(run: StoredRun) -> str:
    """As the paper tells them apart."""
    optimizer = run.config.optimizer
    if "momentum" not in optimizer:
        return str(optimizer["kind"])
    return f"{optimizer['kind']} with{'' if optimizer['momentum'] else 'out'} momentum"


_COMMON: tuple[Facet, ...] = (
    lambda run: str(run.config.name),
    lambda run: str(run.rows[0].learner),
    lambda run: f"{run.config.head} head",
    lambda run: str(run.config.backbone),
)
_OTHERS: tuple[Facet, ...] = (
    lambda run: f"memory {run.rows[0].memory}" if run.in_steps else "",
    lambda run: f"fed back: {run.rows[0].fed_back}" if run.in_steps else "",
    lambda run: f"held out: {run.config.held_out:g}" if run.in_steps else "",
    optimizer_name,
    lambda run: f"{run.config.epochs} epochs",
)


def full_name(run: StoredRun) -> str:
    """What a training is, whatever others there are: ``ce, cosine head``."""
    words = [facet(run) for facet in (*_COMMON[1:3], *(_OTHERS[:2] if run.in_steps else ()))]
    return shown(", ".join(words))


def labels_of(runs: Sequence[StoredRun]) -> list[str]:
    """A label for each of these trainings, of which each stands for all its seeds."""
    words: list[tuple[str, ...]] = [()] * len(runs)
    for facet in (*_COMMON, *_OTHERS, *_any_setting(runs)):
        told = list(map(facet, runs))
        for same in set(words):
            members = [index for index, said in enumerate(words) if said == same]
            if len({told[index] for index in members}) > 1:
                for index in members:
                    words[index] = (*words[index], told[index])
    labels = [", ".join(filter(None, said)) for said in words]
    return [shown(label or run.rows[0].learner) for label, run in zip(labels, runs, strict=True)]


def seeds_and_settings(runs: Sequence[StoredRun], seeds: Sequence[int], *others: str) -> str:
    """What is the same for all runs, given the number of seeds of every training."""
    words = [values.pop() for facet in _COMMON if len(values := {facet(run) for run in runs}) == 1]
    fewest, most = min(seeds), max(seeds)
    number = f"{most} seed{'s' if most > 1 else ''}" if fewest == most else f"{fewest} to {most} seeds"
    trainings = f"{len(seeds)} trainings" if len(seeds) > 1 else ""
    return shown(", ".join(filter(None, [*words, *others, trainings, number])))


def _any_setting(runs: Sequence[StoredRun]) -> list[Facet]:
    """Whatever else may differ: ``lr 0.05``."""
    settings = {id(run): _leaves(run.config.values) for run in runs}

    def told(key: str) -> Facet:
        return lambda run: f"{key.rpartition('.')[2].replace('_', ' ')} {settings[id(run)].get(key, '-')}"

    return [told(key) for key in sorted({key for leaves in settings.values() for key in leaves} - {"seed"})]


def _leaves(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in config.items():
        found |= _leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": str(value)}
    return found
