"""A result: one corrector behind one trained network, with all that is needed to show it and to run it again."""

from __future__ import annotations

import functools
import json
import math
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.plan import EvidencePlan
from energyalign.experiments.train.recipe import describe

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]

    from energyalign.experiments.train.run_directory import RunDirectory

Numbers = tuple[float | None, ...]
_FILE_NAME_PART = re.compile(r"[\w.:+ -]+")
_MAX_WHOLE = 2**63


@dataclass(frozen=True)
class Settings:
    """config.json of a run, as tables and figures read it.

    Attributes
    ----------
    values : mapping
        All of it, as it is in the file.
    """

    values: Mapping[str, Any]

    def __post_init__(self) -> None:
        for name, kind in (("kind", str), ("name", str), ("head", str), ("backbone", str), ("recipe", dict)):
            if not isinstance(self.values.get(name), kind):
                raise ValueError(f"config.{name} must be {_NAMES[kind]}, got {_shown(self.values.get(name))}")
        recipe = self.values["recipe"]
        _whole(recipe.get("epochs"), "config.recipe.epochs")
        if not isinstance(recipe.get("optimizer"), dict) or not isinstance(recipe["optimizer"].get("kind"), str):
            raise ValueError(f"config.recipe.optimizer must have a kind, got {_shown(recipe.get('optimizer'))}")
        _whole(self.values.get("seed"), "config.seed")
        if self.in_steps:
            _whole(self.values.get("n_steps"), "config.n_steps")
            _number(self.values.get("held_out"), "config.held_out")

    @property
    def in_steps(self) -> bool:
        """Whether classes come in steps; of a long tail otherwise."""
        return bool(self.values["kind"] == "IncrementalConfig")

    @property
    def name(self) -> str:
        """Of the cell."""
        return str(self.values["name"])

    @property
    def head(self) -> str:
        """Of the network."""
        return str(self.values["head"])

    @property
    def backbone(self) -> str:
        """Of the network."""
        return str(self.values["backbone"])

    @property
    def seed(self) -> int:
        """Of the training."""
        return int(self.values["seed"])

    @property
    def epochs(self) -> int:
        """Of the training, or of each step."""
        return int(self.values["recipe"]["epochs"])

    @property
    def optimizer(self) -> Mapping[str, Any]:
        """Its settings, with its kind."""
        return typing.cast(Mapping[str, Any], self.values["recipe"]["optimizer"])

    @property
    def n_steps(self) -> int:
        """How often classes come; 1 for a long tail."""
        return int(self.values["n_steps"]) if self.in_steps else 1

    @property
    def held_out(self) -> float:
        """Which part of the exemplars is held out from training; 0 for a long tail."""
        return float(self.values["held_out"]) if self.in_steps else 0.0

    @property
    def but_seed(self) -> str:
        """All that fixes the training but the seed, as text."""
        return json.dumps({**self.values, "seed": None}, sort_keys=True)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One result. A long-tailed run is one with a single step.

    Attributes
    ----------
    cell, learner, corrector : str
    evidence : EvidencePlan or None
        How the evidence was drawn; None if the corrector reads none.
    step, n_steps : int
    n_old, n_new : int
        Classes of the steps before, and of this one.
    overall, top5 : float
        Share of all test images that are right; top-5, or top-k with fewer classes.
    many, medium, few : float or None
        Mean accuracy of classes with more than 100, 20 to 100, and fewer than 20 training images.
    old, new : float or None
        Share of the test images of old and of new classes that are right.
    groups : tuple of float
        The same for the classes of each step.
    per_class : tuple of float or None
        Accuracy of each class.
    counts : tuple of int
        Training images of each class.
    shifts, standard_errors, energies_before, energies_after, effective_samples : tuple or None
        Of each class, for a corrector that adds a number per class; the last three if evidence was read.
    estimator, clusters, n_clusters
        How they were estimated, and which classes share one.
    concerns : tuple of str
        Reasons not to trust the corrector.
    details : mapping
        What it chose on the way.
    memory, fed_back : str or None
        Exemplars, and the corrector that the next step starts from; None for a long tail.
    order : tuple of int or None
        The classes in their order of arrival, if they come in steps.
    manifest, network_sha256 : str
        Which images and which network these are.
    config : Settings
    versions : mapping
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
    overall: float
    top5: float
    many: float | None
    medium: float | None
    few: float | None
    old: float | None
    new: float | None
    groups: tuple[float, ...]
    per_class: Numbers
    counts: tuple[int, ...]
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

    def __post_init__(self) -> None:
        if not _FILE_NAME_PART.fullmatch(self.corrector):
            raise ValueError(f"corrector must be a name, got {_shown(self.corrector)}")

    @property
    def in_steps(self) -> bool:
        """Whether it is of a run whose classes come in steps."""
        return self.config.in_steps

    @property
    def key(self) -> tuple[int, str, str]:
        """Rows of one run differ in these, and are in their order."""
        return self.step, self.corrector, json.dumps(describe(self.evidence), sort_keys=True)

    def accuracy(self, column: str) -> float | None:
        """One of the accuracies, by the name of its field."""
        if column not in ACCURACIES:
            raise EnergyAlignError(f"unknown accuracy {column!r}: choose one of {', '.join(ACCURACIES)}.")
        return typing.cast("float | None", getattr(self, column))

    def to_json(self) -> dict[str, Any]:
        """For a line of rows.jsonl."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        return plain | {
            "evidence": describe(self.evidence),
            "config": dict(self.config.values),
            "details": dict(self.details),
            "versions": dict(self.versions),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], where: object = "this row") -> Self:
        """What `to_json` gave, or an error that says which field is wrong and why; `where` names the file."""
        missing = [item.name for item in fields(cls) if item.name not in value]
        unknown = sorted(value.keys() - {item.name for item in fields(cls)})
        try:
            if missing or unknown:
                raise ValueError("; ".join([f"{name} is missing" for name in missing]
                                           + [f"{name} is unknown" for name in unknown]))  # fmt: skip
            return cls(**{name: _parsed(value[name], hint, name) for name, hint in _hints().items()})
        except (ValueError, EnergyAlignError) as error:
            raise EnergyAlignError(
                f"{where} is no result of this version, or was changed: {str(error).rstrip('.')}. Run the command that "
                "made it again, in another folder."
            ) from error


ACCURACIES = ("overall", "top5", "many", "medium", "few", "old", "new")
"""The fields of a row that are accuracies."""


class Rows(tuple[Row, ...]):
    """Rows of any runs, in their order."""

    __slots__ = ()

    def to_frame(self) -> pandas.DataFrame:
        """A data frame with a line for each row: what was run, its accuracies, its settings."""
        import pandas

        return pandas.DataFrame([_line(row) for row in self])


def load_rows(*paths: str | Any) -> Rows:
    """The rows of run directories, or of folders with some in them at any depth.

    Parameters
    ----------
    *paths : path
        Folders that `energyalign longtail`, `incremental`, `sweep` or `demo` wrote, or results/ of this repository.

    Examples
    --------
    >>> frame = load_rows("runs").to_frame()  # doctest: +SKIP
    """
    from energyalign.experiments.engine.stored import measured_runs

    return Rows(row for run in measured_runs(paths) for row in run.rows)


def read_rows(run: RunDirectory) -> list[Row]:
    """The rows of a run so far."""
    path = run.path / "rows.jsonl"
    return [Row.from_json(value, f"{path}, line {line},") for line, value in enumerate(run.read_rows(), 1)]


def store_row(run: RunDirectory, row: Row) -> None:
    """Put the row in the place of the one that the run may have of its key already; rows are in the order of keys."""
    others = [other for other in read_rows(run) if other.key != row.key]
    run.write_rows([each.to_json() for each in sorted([*others, row], key=lambda each: each.key)])


def _line(row: Row) -> dict[str, Any]:
    lists = ("per_class", "counts", "shifts", "standard_errors", "energies_before", "energies_after",
             "effective_samples", "groups", "order", "details", "config", "versions", "evidence")  # fmt: skip
    plan = row.evidence
    line = {item.name: getattr(row, item.name) for item in fields(row) if item.name not in lists}
    line["concerns"] = "; ".join(row.concerns)
    line["evidence.policy"] = None if plan is None else plan.policy
    line["evidence.per_class"] = None if plan is None else plan.per_class
    for name in ("dataset", "head", "backbone"):
        line[f"config.{name}"] = row.config.values.get(name)
    return line | {"config.epochs": row.config.epochs}


_NAMES: dict[type, str] = {str: "text", dict: "a JSON object"}


@functools.cache
def _hints() -> dict[str, Any]:
    """The type of each field."""
    return {item.name: typing.get_type_hints(Row)[item.name] for item in fields(Row)}


def _parsed(value: Any, hint: Any, name: str) -> Any:
    """The value as its field has it, or a ValueError that names the field."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        if value is None:
            return None
        (hint,) = (option for option in typing.get_args(hint) if option is not type(None))
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{name} must be a list, got {_shown(value)}")
        return tuple(_parsed(item, typing.get_args(hint)[0], f"{name}[{k}]") for k, item in enumerate(value))
    parse: Callable[[Any, str], Any] = _PARSERS.get(hint, _object)
    return parse(value, name)


def _plan(value: Any, name: str) -> EvidencePlan:
    plan = _object(value, name)
    policy = _text(plan.get("policy"), f"{name}.policy")
    return EvidencePlan(_whole(plan.get("per_class"), f"{name}.per_class"), policy)


def _settings(value: Any, name: str) -> Settings:
    return Settings(_object(value, name))


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a JSON object, got {_shown(value)}")
    return value


def _whole(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MAX_WHOLE:
        raise ValueError(f"{name} must be a whole number >= 0, got {_shown(value)}")
    return value


def _number(value: Any, name: str) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {_shown(value)}")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text, got {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_PARSERS: dict[Any, Callable[[Any, str], Any]] = {
    str: _text,
    int: _whole,
    float: _number,
    EvidencePlan: _plan,
    Settings: _settings,
}
