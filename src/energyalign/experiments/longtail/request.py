"""What a user asks of long-tailed runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.core._io.strict_json import read_json_file
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.correctors import STANDARD
from energyalign.experiments.engine.request import Planned, RunRequest
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.learners import CrossEntropy, find_learner
from energyalign.experiments.longtail.methods import METHODS, find_method
from energyalign.experiments.longtail.presets import LongTailPreset, preset_for

if TYPE_CHECKING:
    from energyalign.experiments.longtail.data import LongTailData
    from energyalign.experiments.longtail.experiment import LongTailExperiment


@dataclass(frozen=True, kw_only=True)
class LongTailRequest(RunRequest):
    """Long-tailed runs.

    Attributes
    ----------
    imbalance : float or None
        Largest class over smallest.
    profile : str or None
        How counts fall, or a JSON file from class names to counts.
    clusters : tuple of int
        Also energy aligning with so many Jenks clusters.
    """

    command: ClassVar[str] = "longtail"
    training_options: ClassVar[tuple[str, ...]] = (*RunRequest.training_options, "profile", "split_seed")

    imbalance: float | None = None
    profile: str | None = None
    split_seed: int | None = None
    clusters: tuple[int, ...] = ()

    @cached_property
    def preset(self) -> LongTailPreset:
        """The cell, changed as the options say."""
        preset = preset_for(self.dataset, self.imbalance)
        preset = preset.quick() if self.quick else preset
        return replace(preset, **self.changed(preset))

    def load(self) -> LongTailData:
        """The same for all trainings of the cell."""
        return self.load_for(self.plan()[0].config)

    def load_for(self, config: Any) -> LongTailData:
        """Read the source and cut it."""
        from energyalign.experiments.longtail.data import load_data

        return load_data(config, self.data_root)

    def plan(self, data: Any = None) -> list[Planned]:  # noqa: ARG002 - nothing depends on the size of the data
        """A training for each learner and head."""
        preset = self.preset
        planned = []
        for (learner, head), correctors in self._groups(preset.head, CrossEntropy()).items():
            config = self._config(preset.with_head(head), learner)
            own = learner.head is not None or head == preset.head
            planned.append(Planned(config, correctors, learner.name if own else f"{learner.name}-{head}"))
        return planned

    def finished(self) -> Planned:
        """The network of --from; methods that need another training are refused."""
        from energyalign.experiments.train.checkpoint import newest_checkpoint

        run, stored = self.stored_config()
        config = LongTailConfig.from_json(stored)
        if self.dataset not in (config.dataset, config.name):
            raise EnergyAlignError(f"{run.path} is a run on {config.dataset}, not on {self.dataset}.")
        checkpoint, _ = newest_checkpoint(run.checkpoints, run.config_sha256)
        if checkpoint is None or checkpoint.position.epoch <= config.recipe.epochs:
            raise EnergyAlignError(f"the training of {run.path} is not finished: run the command that began it first.")
        self.refuse_training(run.path, "imbalance")
        correctors: list[str] = []
        for (learner, _head), own in self._groups(config.head, config.learner).items():
            if learner != config.learner:
                raise EnergyAlignError(
                    f"{run.path} was trained by {config.learner.name}; {learner.name} needs a training of its own: "
                    "leave out --from, or that method."
                )
            correctors += own
        return Planned(config, tuple(dict.fromkeys(correctors)), str(run.path))

    def experiment(self, config: LongTailConfig, data: LongTailData, **others: Any) -> LongTailExperiment:
        """The experiment of one config."""
        from energyalign.experiments.longtail.experiment import LongTailExperiment

        return LongTailExperiment(config, data=data, **others)

    def _groups(self, cell_head: str, default: CrossEntropy) -> dict[tuple[CrossEntropy, str], tuple[str, ...]]:
        """The correctors of each learner and head; `default` is the learner of a request without methods."""
        extra = [*self.corrector, *(f"ea-M{m}" for m in self.clusters)]
        groups: dict[tuple[CrossEntropy, str], list[str]] = {}
        for method in map(find_method, METHODS if "all" in self.method else self.method):
            head = self.head or method.head or cell_head
            groups.setdefault((find_learner(method.learner), head), []).append(method.corrector)
        if not groups:
            groups[default, self.head or cell_head] = [] if self.corrector else list(STANDARD)
        return {key: tuple(dict.fromkeys([*correctors, *extra])) for key, correctors in groups.items()}

    def _config(self, preset: LongTailPreset, learner: CrossEntropy) -> LongTailConfig:
        given = self.given("split_seed", "scale", "learned_scale", "precision", "compile")
        if self.profile is not None:
            given["profile"] = _read_profile(self.profile)
        return LongTailConfig.from_preset(preset, learner, seed=self.seed[0], **given)


def _read_profile(name: str) -> str | Mapping[str, int]:
    """The profile of that name, or the counts of a JSON file."""
    if not name.endswith(".json"):
        return name
    try:
        counts = read_json_file(name)
    except (OSError, ValueError) as error:
        raise EnergyAlignError(f"cannot read the counts of {name}: {error}.") from error
    if not isinstance(counts, dict):
        raise EnergyAlignError(f"{name} must hold a JSON object from class names to numbers of training images.")
    return counts
