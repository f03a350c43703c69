"""Requests: the runs that a user wants, from the command line, a sweep or Python alike."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.sources import Source, open_source
from energyalign.experiments.engine.config import EvidencePlan, Preset, RunConfig, has_features, same_kind
from energyalign.experiments.train.recipe import SGD, Adam, Recipe
from energyalign.experiments.train.reporter import DEFAULT_CURVES
from energyalign.experiments.train.run_directory import RunDirectory, refuse_run_directory

if TYPE_CHECKING:
    from energyalign.experiments.data.images import ImageSet
    from energyalign.experiments.engine.experiment import Experiment

_WITHOUT_MOMENTUM = {"imagenet-lt": 200}  # epochs in the paper's ablation; with momentum it trains for 90
_COMMANDS = {"LongTailConfig": "longtail", "IncrementalConfig": "incremental"}  # command for each kind of config.json
_OPTIONS = {"source": "--from"}  # options whose names differ from their fields
_Preset = TypeVar("_Preset", bound=Preset)


class Planned(NamedTuple):
    """A training and the correctors behind it.

    Attributes
    ----------
    config : RunConfig
        With the first seed of the request.
    correctors : tuple of str
    folder : str
        The folder below --out, which differs between the trainings of a cell.
    """

    config: RunConfig
    correctors: tuple[str, ...]
    folder: str


@dataclass(frozen=True, kw_only=True)
class RunRequest(ABC):
    """Runs of one cell: methods, correctors and seeds, how to train them, and where to store them.

    Options that were not given are None, False or empty; the preset then decides. Each application adds the options of
    its protocol and plans the runs.

    Attributes
    ----------
    dataset : str
        Name of a data set or of a preset.
    method, corrector : tuple of str
        Methods by name, and correctors to put behind every training.
    source : tuple of str
        Finished runs of one cell to measure, without training.
    data_root, out : str or None
    own_source : Source or None
        The data, if they do not come from a named data set.
    """

    command: ClassVar[str]
    """The subcommand of `energyalign`."""
    config_class: ClassVar[Any]
    training_options: ClassVar[tuple[str, ...]] = (
        "quick", "epochs", "backbone", "scale", "learned_scale", "optimizer", "lr", "weight_decay", "batch_size",
        "precision", "compile", "weights", "freeze",
    )  # fmt: skip
    """Options that change the training, and the folder below ``runs``. The head is part of the run's folder instead."""
    config_options: ClassVar[tuple[str, ...]] = ("scale", "learned_scale", "precision", "compile", "weights", "freeze")
    """Options that are fields of the config, which has their defaults."""
    refused_with_source: ClassVar[tuple[str, ...]] = ()
    """Options that --from refuses besides `training_options`."""

    dataset: str
    method: tuple[str, ...] = ()
    corrector: tuple[str, ...] = ()
    seed: tuple[int, ...] = (0,)
    quick: bool = False
    epochs: int | None = None
    backbone: str | None = None
    head: str | None = None
    scale: float | None = None
    learned_scale: bool = False
    optimizer: str | None = None
    lr: float | None = None
    weight_decay: float | None = None
    batch_size: int | None = None
    precision: str | None = None
    compile: bool = False
    weights: str | None = None
    freeze: bool = False
    evidence_size: tuple[int, ...] = (50,)
    evidence_policy: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    data_root: str | None = None
    out: str | None = None
    accelerator: str = "auto"
    workers: int = 2
    log: str = DEFAULT_CURVES
    devices: int | None = None
    nodes: int | None = None
    own_source: Source | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_arguments(cls, arguments: Any) -> Self:
        """Make a request of parsed options of the same names."""
        given = {item.name: getattr(arguments, item.name) for item in fields(cls) if hasattr(arguments, item.name)}
        values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}
        return cls(**values)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds without repetitions."""
        return tuple(dict.fromkeys(self.seed))

    @property
    def evidence_plans(self) -> list[EvidencePlan]:
        """The evidence plans: every size with every policy."""
        policies = self.evidence_policy or (EvidencePlan.default_for(self.dataset).policy,)
        sizes = dict.fromkeys(self.evidence_size)
        plans = [EvidencePlan(size, policy) for policy in dict.fromkeys(policies) for size in sizes]
        for plan in plans:
            plan.check_for(self.dataset)
        return plans

    @property
    @abstractmethod
    def preset(self) -> Preset:
        """The cell, changed by the options."""

    @abstractmethod
    def plan(self, data: Any = None) -> list[Planned]:
        """Return the trainings, each once with all its correctors.

        Without data, settings that depend on their size come from the preset.
        """

    @abstractmethod
    def load_for(self, config: Any) -> Any:
        """Load the data of a config."""

    def load(self) -> Any:
        """Load the data of the cell, which all its runs share."""
        return self.load_for(self.plan()[0].config)

    @abstractmethod
    def experiment(self, config: Any, data: Any, **others: Any) -> Experiment[Any]:
        """Make the experiment of one config; `others` are parameters of `Experiment`."""

    @abstractmethod
    def is_finished(self, run: RunDirectory, config: Any) -> bool:
        """Return whether the training of a run is finished."""

    @abstractmethod
    def behind(self, run: RunDirectory, config: Any) -> Sequence[str]:
        """Return the correctors to measure behind a finished run; raise for a method that needs another training."""

    def names_data_of(self, config: RunConfig) -> bool:
        """Return whether a finished run has the data set of this request."""
        return self.dataset in (config.dataset, config.name) or same_kind(self.dataset, config.dataset)

    def finished(self) -> list[Planned]:
        """Return the runs of --from with their correctors; raise unless they share cell and precision."""
        runs = [self._read_finished(RunDirectory(Path(source))) for source in dict.fromkeys(self.source)]
        for run in runs[1:]:
            for name in ("name", "precision"):
                one, other = getattr(runs[0].config, name), getattr(run.config, name)
                if one != other:
                    raise EnergyAlignError(
                        f"--from takes runs of one cell and precision: {runs[0].folder} is of {one}, {run.folder} of "
                        f"{other}. Measure them one after the other."
                    )
        return runs

    def _read_finished(self, run: RunDirectory) -> Planned:
        """Read a run of --from; raise if it is not finished, or if the request has options for training."""
        stored = run.read_json("config.json")
        if stored is None:
            below = min(run.path.glob("**/config.json"), key=lambda path: (len(path.parts), path), default=None)
            example = "" if below is None else f", such as {below.parent}"
            raise EnergyAlignError(
                f"{run.path} is not a run directory (it has no config.json): give the folder of a seed{example}."
            )
        command = _COMMANDS.get(str(stored.get("kind")), self.command) if isinstance(stored, dict) else self.command
        if command != self.command:
            raise EnergyAlignError(f"{run.path} is a run of `energyalign {command}`: use that command.")
        config: RunConfig = self.config_class.from_json(stored)
        if not self.names_data_of(config):
            raise EnergyAlignError(
                f"{run.path} is a run on {config.dataset}, not on {self.dataset}: give runs on that data set."
            )
        if not self.is_finished(run, config):
            raise EnergyAlignError(f"the run in {run.path} is not finished: finish it with the command that began it.")
        names = (*self.training_options, "head", "out", *self.refused_with_source, "seed")
        defaults = {item.name: item.default for item in fields(self)}
        refused = [name for name in names if getattr(self, name) != defaults[name]]
        if refused:
            options = ", ".join("--" + name.replace("_", "-") for name in refused)
            hint = "; only --corrector can be new" if "method" in self.refused_with_source else ""
            raise EnergyAlignError(f"the training of {run.path} is done: leave out {options}{hint}.")
        if same_kind(self.dataset, config.dataset):
            config = replace(config, dataset=self.dataset)  # where the data are now
        return Planned(config, tuple(dict.fromkeys(self.behind(run, config))), str(run.path))

    def words(self, names: Sequence[str]) -> list[str]:
        """Return the options among `names` that were given, as words of a command line."""
        words: list[str] = []
        for name in names:
            value, option = getattr(self, name), _OPTIONS.get(name, "--" + name.replace("_", "-"))
            if value is True:
                words.append(option)
            elif isinstance(value, tuple):
                words += [option, *map(str, value)] if value else []
            elif str(value).startswith("-"):
                words.append(f"{option}={value}")  # argparse would take a separate word for an option
            elif value is not None and value is not False:
                words += [option, str(value)]
        return words

    def folder_name(self, cell: str, *others: str) -> str:
        """Name a folder after the cell and all options that change its trainings."""
        words = [cell]
        for name in (*self.training_options, *others):
            value = getattr(self, name)
            if value is not None and value is not False:
                shown = Path(value).name if name == "weights" else value  # the config distinguishes files of one name
                words.append(name if value is True else f"{name}-{shown}")
        return re.sub(r"[^\w.-]+|_", "-", "-".join(words))

    @property
    def out_folder(self) -> Path:
        """The folder of the runs: --out, or a folder named after cell and options."""
        out = Path(self.out or f"runs/{self.folder_name(self.preset.name)}")
        refuse_run_directory(out)
        self.refuse_among_images(out)
        return out

    def refuse_among_images(self, out: Path) -> None:
        """Raise if `out` is among the class folders of the data, where the next command would read runs as classes."""
        source = self.own_source or open_source(self.preset.dataset, self.data_root)
        for folder in {path for split in ("train", "test") for path in source.files(split) if path.is_dir()}:
            if out.resolve().is_relative_to(folder.resolve()):
                raise EnergyAlignError(
                    f"{out} is in {folder}, whose folders are classes of {source.name}: give an --out outside of it."
                )

    def change(self, preset: _Preset) -> _Preset:
        """Change a preset by the options that both applications share."""
        preset = preset.quick() if self.quick else preset
        return replace(preset, recipe=self._recipe(preset), backbone=self.backbone or preset.backbone)

    def for_images(self, preset: _Preset, train: ImageSet | None) -> _Preset:
        """With --quick, choose a small network if the user's own images are small, which only the data show."""
        is_own = ":" in preset.dataset and not has_features(preset.dataset)
        if train is None or not (self.quick and is_own) or self.backbone:
            return preset
        from energyalign.experiments.data.images import MemoryImages

        return replace(preset, backbone="resnet8") if isinstance(train, MemoryImages) else preset

    def _recipe(self, preset: Preset) -> Recipe:
        recipe = preset.recipe if self.epochs is None else preset.recipe.lasting(self.epochs)
        optimizer: Any = recipe.optimizer
        if self.optimizer in ("sgd", "sgd-plain") and not isinstance(optimizer, SGD):  # the default on features is Adam
            optimizer = SGD(0.1, weight_decay=optimizer.weight_decay)
            recipe = replace(recipe, optimizer=optimizer)
        if self.optimizer == "adam":
            recipe = replace(recipe, optimizer=Adam(weight_decay=optimizer.weight_decay))
        elif self.optimizer == "sgd-plain":
            recipe = replace(recipe, optimizer=replace(optimizer, momentum=0.0))
            if self.epochs is None and not self.quick:
                recipe = recipe.lasting(_WITHOUT_MOMENTUM.get(preset.dataset, recipe.epochs))
        for name, value in self.get_options("lr", "weight_decay").items():
            if not (math.isfinite(value) and value >= 0):
                raise EnergyAlignError(f"--{name.replace('_', '-')} must be >= 0, got {value:g}.")
        optimizer = replace(recipe.optimizer, **self.get_options("lr", "weight_decay"))
        return replace(recipe, optimizer=optimizer, batch_size=self.batch_size or recipe.batch_size)

    def get_options(self, *names: str) -> dict[str, Any]:
        """Return the options among `names` that were given."""
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}
