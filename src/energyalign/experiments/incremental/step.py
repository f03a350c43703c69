"""A step: its images, the memory that it keeps, and the files from which the next step continues."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import torch
from lightning_fabric import Fabric
from safetensors import SafetensorError
from safetensors.torch import load, save
from scipy.special import logsumexp

from energyalign.core._io.atomic import atomic_write, remove_folder
from energyalign.core._io.regular import open_regular
from energyalign.core._io.tensors import read_tensors
from energyalign.core.arrays import Floats, Ints
from energyalign.core.errors import EnergyAlignError, reason_of
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.engine.outputs import for_inference, outputs, scores
from energyalign.experiments.engine.stored import step_folder
from energyalign.experiments.engine.trained import Ground, SeenClasses
from energyalign.experiments.incremental.memory import Memory, herded_lists, random_lists
from energyalign.experiments.nets.network import Network
from energyalign.experiments.train.loop import EpochBatches, Loss, TrainingLoop
from energyalign.experiments.train.randomness import derived_seed, seed_torch
from energyalign.experiments.train.recipe import Recipe, describe
from energyalign.experiments.train.reporter import Reporter
from energyalign.experiments.train.run_directory import RunDirectory, open_run
from energyalign.experiments.train.tensor_file import load_arrays, save_arrays

if TYPE_CHECKING:
    from energyalign.experiments.incremental.config import IncrementalConfig

NETWORK, RECORD, STATE = "network.safetensors", "record.safetensors", "state.json"
_ROWS = 4096


@dataclass(frozen=True, eq=False)
class Step(SeenClasses, Ground):
    """Everything that learners and correctors may see in a step: its new images and the memory.

    Attributes
    ----------
    number : int
        Number of the step, from 1.
    sizes : tuple of int
        Number of classes of each step up to this one. Classes are numbered in their order of arrival.
    indices : array
        Indices of the `train` images in the stream.
    train : ImageSet
        New images and exemplars.
    new_held_out : tuple of arrays
        Indices in the stream of the held-out images of each new class.
    held_out : ImageSet or None
        Held-out images, equally many of each class, if the config asks for them.
    run : RunDirectory
        The directory of the whole run.
    """

    config: IncrementalConfig
    number: int
    sizes: tuple[int, ...]
    indices: Ints
    train: ImageSet
    new_held_out: tuple[Ints, ...]
    held_out: ImageSet | None
    run: RunDirectory
    fabric: Fabric
    reporter: Reporter
    workers: int = 0

    @property
    def recipe(self) -> Recipe:
        return self.config.recipe_of(self.number)

    @property
    def device(self) -> torch.device:
        return self.fabric.device

    @property
    def folder(self) -> Path:
        """Folder of the files of this step."""
        return step_folder(self.run.path, self.number)

    def seed(self, *what: str | int) -> int:
        return derived_seed(self.config.seed, "step", self.number, *what)

    def seed_torch(self, *what: str | int) -> None:
        """Seed torch's global generator for this purpose."""
        seed_torch(self.config.seed, "step", self.number, *what)

    def train_network(
        self, network: Network, loss: Loss, *, stage: str = "training", recipe: Recipe | None = None,
        batches: EpochBatches | None = None,
    ) -> None:  # fmt: skip
        """Train in place, with a folder below the step's folder, from which an interrupted training resumes.

        Afterwards the network is in evaluation mode and single precision.
        """
        recipe = recipe or self.recipe
        config = self.config.to_json() | {"step": self.number, "stage": stage, "stage_recipe": describe(recipe)}
        name = f"step {self.number} of {self.config.n_steps}" + ("" if stage == "training" else f" {stage}")
        with open_run(self.folder / stage, config, self.fabric, within=self.run) as run:
            training = TrainingLoop(
                self.fabric, network, batches=batches or self.loader(purpose=stage), loss=loss,
                recipe=recipe, run=run, seed=self.seed(stage), reporter=self.reporter.stage(name),
                compile=self.config.compile,
            )  # fmt: skip
            training.finish()
        network.float().eval()


@dataclass(frozen=True, eq=False)
class StepRecord:
    """Statistics of the new classes of a step, measured at its end for later correctors.

    Attributes
    ----------
    weight : array of shape (n_new, n_features)
        Rows of these classes in the head's weight.
    bias : array of shape (n_new,)
        Zero if the head has none.
    mean_score, mean_probability : arrays of shape (n_new,)
        Logit and softmax output of a class, averaged over its training images.
    confidence, confidence_probability : floats
        The largest logit and the largest softmax output of an image, averaged over all images of these classes.
    """

    weight: Floats
    bias: Floats
    mean_score: Floats
    mean_probability: Floats
    confidence: float
    confidence_probability: float

    @classmethod
    def of(cls, network: Network, logits: npt.NDArray[np.float32], labels: Ints, n_old: int) -> Self:
        """Make the record from the logits of the training images of the new classes."""
        head = network.head
        n_new = head.out_features - n_old
        bias = torch.zeros(head.out_features) if head.bias is None else head.bias.detach().cpu()
        own, largest, total = (np.empty(len(labels)) for _ in range(3))
        for first in range(0, len(labels), _ROWS):  # 100,000 images by 1,000 classes are 800 MB in doubles
            rows = slice(first, first + _ROWS)
            scores = logits[rows].astype(np.float64)
            own[rows] = scores[np.arange(len(scores)), labels[rows]]
            largest[rows], total[rows] = scores.max(axis=1), logsumexp(scores, axis=1)
        number = np.bincount(labels - n_old, minlength=n_new)
        return cls(
            head.weight.detach().cpu().double().numpy()[n_old:],
            bias.double().numpy()[n_old:],
            np.bincount(labels - n_old, own, minlength=n_new) / number,
            np.bincount(labels - n_old, np.exp(own - total), minlength=n_new) / number,
            float(largest.mean()),
            float(np.exp(largest - total).mean()),
        )

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {item.name: np.atleast_1d(np.asarray(getattr(self, item.name))) for item in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Restore what `arrays` returned."""
        numbers = ("confidence", "confidence_probability")
        values: dict[str, Any] = {name: float(array[0]) if name in numbers else array for name, array in arrays.items()}
        return cls(**values)


@dataclass(frozen=True, eq=False)
class FinishedStep:
    """What a later step needs from a finished step, in addition to the network."""

    memory: Memory
    record: StepRecord
    network_sha256: str
    processes: int


def finish_step(step: Step, network: Network, memory: Memory) -> tuple[Memory, StepRecord]:
    """Return the memory of the next step and the record of this one."""
    config, classes = step.config, range(step.n_old, step.n_seen)
    places = np.flatnonzero(step.is_new)
    images, indices, labels = step.train.subset(places), step.indices[places], step.train.labels[places]
    backbone = for_inference(network).backbone
    features = outputs(backbone, images, workers=step.workers, device=step.fabric.device)
    logits = scores(network.head, features, device=step.fabric.device)
    if config.memory.selection == "herding":
        most = config.memory.quotas(step.counts)[step.n_old :]
        lists = herded_lists(indices, labels, classes, features, most)
    else:
        lists = random_lists(indices, labels, classes, step.seed("memory"))
    kept = memory.after(Memory(lists, step.new_held_out), config.memory, config.held_out)
    return kept, StepRecord.of(network, logits, labels, step.n_old)


def is_finished(run: RunDirectory, number: int) -> bool:
    """Return whether the step is finished. Its state is written last."""
    return (step_folder(run.path, number) / STATE).exists()


def refuse_gap(run: RunDirectory, number: int, n_steps: int) -> None:
    """Raise an error if this step is missing although a later one is finished, instead of training it again."""
    later = [other for other in range(number + 1, n_steps + 1) if is_finished(run, other)]
    if later and not is_finished(run, number):
        folder = step_folder(run.path, number)
        raise EnergyAlignError(
            f"{folder / STATE} is missing, though step {later[0]} was trained after it: put it back, or "
            f"{_remedy(folder)}"
        )


def save_step(
    run: RunDirectory, number: int, network: Network, memory: Memory, record: StepRecord, *, processes: int = 1
) -> FinishedStep:
    """Write the files of a step, trained by `processes` processes, and delete the files of its trainings."""
    weights = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
    content = save(weights)
    finished = FinishedStep(memory, record, hashlib.sha256(content).hexdigest(), processes)
    if run.writes:
        with run.saving() as place:
            folder = step_folder(place, number)
            folder.mkdir(exist_ok=True)  # some learners do not train
            with atomic_write(folder / NETWORK, "wb") as stream:
                stream.write(content)
            save_arrays(folder / RECORD, record.arrays())
            hashes = {NETWORK: finished.network_sha256, RECORD: _sha256(folder / RECORD)}
            state = {"memory": memory.to_json(), "sha256": hashes, "processes": processes}
            RunDirectory(folder).write_json(STATE, state | {"checksum": _checksum(state, run)})
            _delete_stages(folder)
    return finished


def load_step(run: RunDirectory, number: int, network: Network) -> FinishedStep:
    """Read what `save_step` wrote, with the weights into `network`."""
    folder = step_folder(run.path, number)
    state = RunDirectory(folder).read_json(STATE) or {}
    if state.pop("checksum", None) != _checksum(state, run):
        raise EnergyAlignError(f"{folder / STATE} is damaged, or of a run with other settings: {_remedy(folder)}")
    try:
        damaged = [name for name in (NETWORK, RECORD) if _sha256(folder / name) != state["sha256"][name]]
        if damaged:
            raise EnergyAlignError(f"{folder / damaged[0]} is damaged")
        with open_regular(folder / NETWORK) as stream:
            weights, _ = read_tensors(stream, load)
        network.load_state_dict(weights)
        memory = Memory.from_json(state["memory"])
        record = StepRecord.from_arrays(load_arrays(folder / RECORD))
        processes = int(state["processes"])
    except (OSError, SafetensorError, RuntimeError, LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise EnergyAlignError(
            f"the step in {folder} cannot be read ({reason_of(error)}): {_remedy(folder)}"
        ) from error
    network.eval()
    if run.writes:
        _delete_stages(folder)  # the process that saved the step may have been killed before
    return FinishedStep(memory, record, state["sha256"][NETWORK], processes)


def _delete_stages(folder: Path) -> None:
    """Delete the run directories of the trainings of a finished step."""
    for config in folder.glob("*/config.json"):
        remove_folder(config.parent)


def _checksum(state: dict[str, Any], run: RunDirectory) -> str:
    """Return a checksum of the state and of the settings of the run."""
    return hashlib.sha256((json.dumps(state, sort_keys=True) + run.config_sha256).encode()).hexdigest()


def _sha256(path: Path) -> str:
    with open_regular(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _remedy(folder: Path) -> str:
    return f"remove {folder} and all later steps beside it, and the run will train them again."
