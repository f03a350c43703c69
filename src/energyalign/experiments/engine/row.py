"""Rows: the result of one corrector behind one trained network, with everything needed to show and repeat it."""

from __future__ import annotations

import functools
import math
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from energyalign.core.errors import EnergyAlignError
from energyalign.core.metrics import balanced_standard_error
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.train.recipe import describe

HEADLINE = "balanced"
"""The accuracy that tables, figures and pages compare."""
ACCURACIES = (HEADLINE, "overall", "macro_f1", "top5", "many", "medium", "few", "old", "new")
"""The fields of a row that `Row.accuracy` returns."""
Numbers = tuple[float | None, ...]
_FILE_NAME_PART = re.compile(r"[\w.:+ -]+")


@dataclass(frozen=True)
class Settings:
    """The content of config.json, as tables and figures read it.

    Attributes
    ----------
    values : mapping
        The whole content.
    in_steps : bool
        Whether the run is class-incremental; otherwise it is long-tailed.
    name : str
        Name of the cell.
    epochs : int
        Epochs of the training, or of each step.
    optimizer : mapping
        Settings of the optimiser, with its kind.
    n_steps : int
        Number of steps; 1 for a long tail.
    held_out : float
        Share of the training images, or of the exemplars, that is held out from training.
    """

    values: Mapping[str, Any]
    in_steps: bool = field(init=False, repr=False, compare=False)
    name: str = field(init=False, repr=False, compare=False)
    head: str = field(init=False, repr=False, compare=False)
    backbone: str = field(init=False, repr=False, compare=False)
    seed: int = field(init=False, repr=False, compare=False)
    epochs: int = field(init=False, repr=False, compare=False)
    optimizer: Mapping[str, Any] = field(init=False, repr=False, compare=False)
    n_steps: int = field(init=False, repr=False, compare=False)
    held_out: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        def read(path: str, hint: type) -> Any:
            value: Any = self.values
            for name in path.split("."):
                value = value.get(name) if isinstance(value, dict) else None
            return _parse(value, hint, f"config.{path}")

        in_steps = read("kind", str) == "IncrementalConfig"
        self.__dict__.update(
            in_steps=in_steps,
            name=read("name", str),
            head=read("head", str),
            backbone=read("backbone", str),
            seed=read("seed", int),
            epochs=read("recipe.epochs", int),
            optimizer=read("recipe.optimizer", dict),
            n_steps=read("n_steps", int) if in_steps else 1,
            held_out=read("held_out", float) if "held_out" in self.values else 0.0,
        )
        read("recipe.optimizer.kind", str)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One result. A long-tailed run has a single step.

    Attributes
    ----------
    cell, learner, corrector : str
    evidence : EvidencePlan or None
        How the evidence was drawn; None if the corrector reads none.
    step, n_steps : int
    n_old, n_new : int
        Number of classes of the steps before, and of this one.
    balanced, top5 : float
        Balanced accuracy; the same with the top 5 classes, or with all if there are fewer.
    overall : float
        Overall accuracy. It equals `balanced` on a balanced test set.
    macro_f1 : float
        Mean F1 of the classes.
    ece, nll, brier : float or None
        Calibration of the softmax outputs, as in `energyalign.core.calibration`; None if the scores are not logits.
    many, medium, few : float or None
        Mean accuracy of classes with more than 100, 20 to 100, and fewer than 20 training images.
    old, new : float or None
        Mean accuracy of old and of new classes.
    groups : tuple of float
        Mean accuracy of the classes of each step.
    per_class : tuple of float or None
        Accuracy of each class.
    counts, test_counts : tuple of int
        Number of training and test images of each class. In a long tail, held-out images count as training images.
    shifts, standard_errors, energies_before, energies_after, effective_samples : tuple or None
        One number per class, for a corrector that adds shifts; the last three if it read evidence.
    estimator, clusters, n_clusters
        How the shifts were estimated, and which classes share one.
    concerns : tuple of str
        Reasons not to trust the corrector.
    details : mapping
        Other choices of the corrector, such as hyper-parameters.
    memory, fed_back : str or None
        Memory, and the corrector that the next step starts from; None for a long tail.
    order : tuple of int or None
        The classes in their order of arrival; None for a long tail.
    manifest, network_sha256 : str
        Hashes of the manifest and of the network's weights.
    config : Settings
    versions : mapping
        Versions of the measurement.
    environments : tuple of mapping, default ()
        Environments of the run, oldest first: versions, device, processor and threads. There are several
        if the run was resumed in another environment.
    """

    cell: str
    learner: str
    corrector: str
    evidence: EvidencePlan | None
    seed: int
    step: int
    n_steps: int
    n_old: int
    n_new: int
    balanced: float
    overall: float
    macro_f1: float
    ece: float | None
    nll: float | None
    brier: float | None
    top5: float
    many: float | None
    medium: float | None
    few: float | None
    old: float | None
    new: float | None
    groups: tuple[float, ...]
    per_class: Numbers
    counts: tuple[int, ...]
    test_counts: tuple[int, ...]
    shifts: Numbers | None
    standard_errors: Numbers | None
    energies_before: Numbers | None
    energies_after: Numbers | None
    effective_samples: Numbers | None
    estimator: str | None
    clusters: str | None
    n_clusters: int | None
    concerns: tuple[str, ...]
    details: Mapping[str, Any]
    memory: str | None
    fed_back: str | None
    order: tuple[int, ...] | None
    manifest: str
    network_sha256: str
    config: Settings
    versions: Mapping[str, Any]
    environments: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if not _FILE_NAME_PART.fullmatch(self.corrector):
            raise ValueError(f"corrector must be a name, got {self.corrector!r:.60}")

    @property
    def in_steps(self) -> bool:
        """Whether the run is class-incremental."""
        return self.config.in_steps

    @property
    def key(self) -> tuple[int, str, tuple[str, int]]:
        """Identifies a row within its run; rows are stored in this order."""
        return self.step, self.corrector, self.evidence_key

    @property
    def evidence_key(self) -> tuple[str, int]:
        """Sort key of the evidence: the policy, then the number of images."""
        return (self.evidence.policy, self.evidence.per_class) if self.evidence else ("", 0)

    @property
    def has_balanced_test(self) -> bool:
        """Whether all tested classes have equally many test images, so that `overall` equals `balanced`."""
        return len({*self.test_counts} - {0}) <= 1

    @property
    def standard_error(self) -> float:
        """Standard error of `balanced` over test sets."""
        return balanced_standard_error([share or 0.0 for share in self.per_class], self.test_counts)

    def accuracy(self, column: str) -> float | None:
        """Return the accuracy `column`, which is one of `ACCURACIES`."""
        if column not in ACCURACIES:
            raise EnergyAlignError(f"unknown accuracy {column!r}: choose one of {', '.join(ACCURACIES)}.")
        return typing.cast("float | None", getattr(self, column))

    def to_json(self) -> dict[str, Any]:
        """Return the content of a line of rows.jsonl."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        return plain | {"evidence": describe(self.evidence), "config": dict(self.config.values)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], where: object = "this row") -> Self:
        """Convert the output of `to_json` back; errors name the wrong field and the file `where`."""
        hints = _hints()
        value = {"environments": [], **value}
        problems = [f"{name} is missing" for name in hints if name not in value]
        problems += [f"{name} is unknown" for name in sorted(value.keys() - hints.keys())]
        try:
            if problems:
                raise ValueError("; ".join(problems))
            return cls(**{name: _parse(value[name], hint, name) for name, hint in hints.items()})
        except (ValueError, EnergyAlignError) as error:
            raise EnergyAlignError(
                f"{where} was changed, or is from another version: {str(error).rstrip('.')}. Run the "
                "command that made it again, in another folder."
            ) from error


def natural(text: str) -> list[tuple[int, str]]:
    """Return a key that sorts numbers within names as numbers: ``lt-5``, ``lt-20``, ``lt-200``."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", text)]


@functools.cache
def _hints() -> dict[str, Any]:
    return typing.get_type_hints(Row)


def _parse(value: Any, hint: Any, name: str) -> Any:
    """Convert a JSON value to the type of a field, or raise a ValueError that names the field."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        if value is None:
            return None
        (hint,) = (option for option in typing.get_args(hint) if option is not type(None))
    if typing.get_origin(hint) is tuple:
        is_right, expected = isinstance(value, (list, tuple)), "a list"
    elif hint is str:
        is_right, expected = isinstance(value, str), "text"
    elif hint is int:
        is_right, expected = type(value) is int and 0 <= value < 2**63, "a whole number >= 0"
    elif hint is float:
        is_right, expected = type(value) in (int, float) and -math.inf < value < math.inf, "a finite number"
    else:
        is_right, expected = isinstance(value, dict), "a JSON object"
    if not is_right:
        text = repr(value)
        raise ValueError(f"{name} must be {expected}, got {text if len(text) <= 60 else text[:57] + '...'}")
    if typing.get_origin(hint) is tuple:
        return tuple(_parse(item, typing.get_args(hint)[0], f"{name}[{k}]") for k, item in enumerate(value))
    if hint is EvidencePlan:
        policy = _parse(value.get("policy"), str, f"{name}.policy")
        return EvidencePlan(_parse(value.get("per_class"), int, f"{name}.per_class"), policy)
    return Settings(value) if hint is Settings else value
