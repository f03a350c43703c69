"""Configs and requests of long-tailed runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.core._io.strict_json import read_json_file
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.correctors import STANDARD, find_corrector
from energyalign.experiments.data.sources import open_source
from energyalign.experiments.engine.config import RunConfig
from energyalign.experiments.engine.request import Planned, RunRequest
from energyalign.experiments.longtail.learners import LEARNERS, CrossEntropy, find_learner
from energyalign.experiments.longtail.methods import METHODS, find_method
from energyalign.experiments.longtail.presets import LongTailPreset, preset_for

if TYPE_CHECKING:
    from energyalign.experiments.longtail.experiment import LongTailData, LongTailExperiment
    from energyalign.experiments.train.run_directory import RunDirectory


@dataclass(frozen=True, kw_only=True)
class LongTailConfig(RunConfig):
    """The settings of one training and its long-tailed subset.

    Attributes
    ----------
    profile : str or mapping
        How counts fall from class to class, ``natural`` for the data as they are, or counts by class name.
    imbalance : float or None
        Largest class over smallest; None for the data as they are.
    split_seed : int
        Seed of the long-tailed subset. LDAM, BBN and later work use seed 0, so it stays 0 while `seed` varies.
    """

    learner: CrossEntropy
    profile: str | Mapping[str, int]
    imbalance: float | None
    split_seed: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.imbalance is not None and not (math.isfinite(self.imbalance) and self.imbalance >= 1):
            raise EnergyAlignError(f"the imbalance, largest over smallest class, must be >= 1, got {self.imbalance:g}.")

    @classmethod
    def from_preset(
        cls, preset: LongTailPreset, learner: CrossEntropy | None = None, *, seed: int,
        profile: str | Mapping[str, int] = "exponential", split_seed: int = 0, **options: Any,
    ) -> LongTailConfig:  # fmt: skip
        """Make the config of a cell, with the changes of the learner, which is cross-entropy by default.

        `options` are further fields, such as `scale` or `precision`.
        """
        learner = learner or CrossEntropy()
        if preset.imbalance is None:
            if profile != "exponential" and isinstance(profile, str):
                raise EnergyAlignError(f"{preset.name} has no imbalance: give one with the profile.")
            profile = "natural" if isinstance(profile, str) else profile
        if learner.scale is not None:
            options |= {"scale": learner.scale, "learned_scale": False}
        return cls.of_cell(
            preset, learner, profile=profile, imbalance=preset.imbalance, split_seed=split_seed, seed=seed, **options
        )

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> LongTailConfig:
        """Restore what `to_json` returned."""
        return cls.restore(value, LEARNERS)


@dataclass(frozen=True, kw_only=True)
class LongTailRequest(RunRequest):
    """A request for long-tailed runs.

    Attributes
    ----------
    imbalance : float or None
        Largest class over smallest.
    profile : str or None
        How counts fall, or a JSON file of counts by class name.
    split_seed : int or None
        Seed of the long-tailed subset.
    held_out : float or None
        Share of the training images that is held out; None for the share that each method needs.
    clusters : tuple of int
        Numbers of Jenks clusters; each adds energy aligning with that number.
    """

    command: ClassVar[str] = "longtail"
    config_class: ClassVar[type[LongTailConfig]] = LongTailConfig
    training_options: ClassVar[tuple[str, ...]] = (*RunRequest.training_options, "profile", "split_seed", "held_out")
    config_options: ClassVar[tuple[str, ...]] = (*RunRequest.config_options, "split_seed")
    refused_with_source: ClassVar[tuple[str, ...]] = ("imbalance",)

    imbalance: float | None = None
    profile: str | None = None
    split_seed: int | None = None
    held_out: float | None = None
    clusters: tuple[int, ...] = ()

    @cached_property
    def preset(self) -> LongTailPreset:
        """The cell with the options applied."""
        return self.change(preset_for(self.dataset, self.imbalance))

    def load_for(self, config: LongTailConfig) -> LongTailData:
        """Load the source and cut it."""
        from energyalign.experiments.longtail.experiment import load_data

        return load_data(config, self.data_root, self.own_source)

    def experiment(self, config: LongTailConfig, data: LongTailData, **others: Any) -> LongTailExperiment:
        from energyalign.experiments.longtail.experiment import LongTailExperiment

        return LongTailExperiment(config, data=data, **others)

    def plan(self, data: LongTailData | None = None) -> list[Planned]:
        """Plan one training for each learner and head."""
        preset = self.for_images(self.preset, None if data is None else data.train)
        given = self.get_options(*self.config_options)
        if self.profile is not None:
            given["profile"] = _read_profile(self.profile)
        planned = []
        for (learner, head, held_out), correctors in self._groups(preset.head, CrossEntropy()).items():
            config = LongTailConfig.from_preset(
                preset.with_head(head), learner, seed=self.seed[0], held_out=held_out, **given
            )
            own = learner.head is not None or head == preset.head
            words = [learner.name, "" if own else head, "held-out" if held_out else ""]
            planned.append(Planned(config, correctors, "-".join(filter(None, words))))
        return planned

    def is_finished(self, run: RunDirectory, config: LongTailConfig) -> bool:
        """Return whether there is a checkpoint of the last epoch."""
        from energyalign.experiments.train.checkpoint import newest_checkpoint

        checkpoint, _ = newest_checkpoint(run.checkpoints, run.config_sha256)
        return checkpoint is not None and checkpoint.position.epoch > config.recipe.epochs

    def behind(self, run: RunDirectory, config: LongTailConfig) -> Sequence[str]:
        """Return the correctors of requested methods, which must have this learner, and correctors given by name."""
        groups = self._groups(config.head, config.learner)
        for learner, _, _ in groups:
            if learner != config.learner:
                raise EnergyAlignError(
                    f"{run.path} was trained by {config.learner.name}; {learner.name} needs its own training: leave "
                    "out --from, or that method; --corrector works behind any training."
                )
        return [corrector for correctors in groups.values() for corrector in correctors]

    def _groups(self, cell_head: str, default: CrossEntropy) -> dict[tuple[CrossEntropy, str, float], tuple[str, ...]]:
        """Group correctors by learner, head and held-out share; `default` is the learner of a request without methods.

        A method that needs held-out images gets a training of its own, with the raw network as its control.
        """
        groups: dict[tuple[CrossEntropy, str, float], list[str]] = {}
        for method in map(find_method, METHODS if "all" in self.method else self.method):
            head, held_out = self.head or method.head or cell_head, self._held_out_for(method.corrector)
            control = ["raw"] if held_out else []
            groups.setdefault((find_learner(method.learner), head, held_out), control).append(method.corrector)
        if not groups:
            groups[default, self.head or cell_head, self.held_out or 0.0] = [] if self.corrector else list(STANDARD)
        extra = [*self.corrector, *(f"ea-M{m}" for m in self.clusters)]
        return {key: tuple(dict.fromkeys([*correctors, *extra])) for key, correctors in groups.items()}

    def _held_out_for(self, name: str) -> float:
        """Return the share to hold out: --held-out, or the share that the corrector of a method needs."""
        corrector = find_corrector(name)
        if self.held_out is None and corrector.takes_validation:
            source = self.own_source or open_source(self.preset.dataset, self.data_root)
            return 0.0 if source.has_validation else corrector.held_out
        return corrector.held_out if self.held_out is None else self.held_out


def _read_profile(name: str) -> str | Mapping[str, int]:
    """Return the name of a profile, or the counts of a JSON file."""
    if not name.endswith(".json"):
        return name
    try:
        counts = read_json_file(name)
    except (OSError, ValueError) as error:
        raise EnergyAlignError(f"cannot read the counts of {name}: {error}. Check the file.") from error
    if not isinstance(counts, dict):
        raise EnergyAlignError(f"{name} must hold a JSON object that maps class names to training counts.")
    return counts
