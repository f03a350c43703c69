"""The one training loop: every experiment of the project goes through it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import torch
from lightning_fabric import Fabric

from energyalign.core._io.signals import Interrupted, Interruption
from energyalign.core.errors import CannotGoOn, EnergyAlignError, some_of
from energyalign.experiments.nets.network import FrozenBackbone, Network
from energyalign.experiments.nets.registry import PATHS_ARE_NOT_COMPILED
from energyalign.experiments.train.checkpoint import (
    Checkpoint,
    Position,
    drop_older,
    newest_checkpoint,
    save_checkpoint,
)
from energyalign.experiments.train.randomness import seed_torch
from energyalign.experiments.train.recipe import Recipe
from energyalign.experiments.train.reporter import Reporter
from energyalign.experiments.train.run_directory import RunDirectory
from energyalign.pytorch.ranks import take_from_first

Loss: TypeAlias = Callable[[torch.nn.Module, Any, int], torch.Tensor]


class EpochBatches(Protocol):
    """Batches that are a function of the epoch and their number alone, so that a run can resume inside an epoch."""

    @property
    def n_batches(self) -> int: ...

    def epoch(self, number: int, *, start: int = 0, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        """Batches `start`, `start` + 1, ... of this epoch; a rank gets its part of each."""


class NotFinite(CannotGoOn):
    """The loss or the network became NaN or infinite."""


class TrainingLoop:
    """One training of one network: starts, goes on where its run directory says it stopped, and ends the same.

    Whatever interrupts it, the result is byte for byte that of an uninterrupted run on the same machine: batches and
    random numbers are functions of seed, epoch and batch, and everything else is in the checkpoint.

    Several processes share every batch, and a sample counts as much in each of them. What depends on more than one
    sample is taken over those of a process: statistics of batch normalisation above all, and mixtures. So their number
    is part of the result, and a training goes on with as many as it began with. (Statistics over all processes,
    SyncBatchNorm, would come nearer to one process, but cost a collective operation in every layer, do not exist on
    CPUs, and are not what published multi-GPU results have.) Running statistics are those of the first process, which
    all have in the end.

    Parameters
    ----------
    fabric : lightning_fabric.Fabric
        Device, precision and processes; launched.
    network : torch.nn.Module
        Trained in place.
    parameters : iterable
        What the optimiser gets, parameters or groups of them; all of the network unless given. A group that learns
        slower or faster than the recipe says has an ``lr_factor``.
    loss : callable
        ``loss(network, batch, epoch)``, the mean over the samples of the batch; epochs count from 1. It may call any
        part of the network: features, backbone, head.
    compile : bool
        Let `torch.compile` make code for the network, for which every training begins later; docs/performance.md has
        what it saves.
    """

    def __init__(
        self, fabric: Fabric, network: torch.nn.Module, *, parameters: Iterable[Any] | None = None,
        batches: EpochBatches, loss: Loss, recipe: Recipe, run: RunDirectory, seed: int, reporter: Reporter,
        compile: bool = False,
    ) -> None:  # fmt: skip
        self._fabric, self._network, self._batches = fabric, network, batches
        self._recipe, self._run, self._seed, self._reporter = recipe, run, seed, reporter
        self._compile = compile
        chosen = network.parameters() if parameters is None else parameters
        self._model, self._optimizer = fabric.setup(_WithLoss(network, loss), recipe.optimizer.make(chosen))
        self._position = self._resume()

    def finish(self) -> None:
        """Train to the end.

        Raises `Interrupted` on Ctrl-C or SIGTERM, after the batch was finished and saved (after the last batch the
        training is finished; what would have followed it is not begun), and `NotFinite` if the loss is NaN or infinite,
        or a weight is by the end of an epoch; the last good checkpoint is kept.
        """
        telling = self._reporter.training(self._recipe, self._batches.n_batches, self._position)
        with self._code(), Interruption() as interruption, telling:
            while self._position.epoch <= self._recipe.epochs:
                self._epoch(interruption)
        take_from_first(self._network)
        # Here and not inside: from now on signals do again what they did before, so that none goes unheard.
        if number := self._asked_to_stop(interruption):
            raise Interrupted(number)

    def _code(self) -> contextlib.AbstractContextManager[None]:
        """Compiled if that was asked for and something is left to be done."""
        if not self._compile or self._position.epoch > self._recipe.epochs:
            return contextlib.nullcontext()
        refuse_without_compiler(self._fabric.device)
        return compiled(self._network)

    def _epoch(self, interruption: Interruption) -> None:
        epoch, start = self._position.epoch, self._position.batch
        lr = self._recipe.lr(epoch)
        for group in self._optimizer.param_groups:
            group["lr"] = lr * group.get("lr_factor", 1.0)
        self._model.train()
        ranks = {"rank": self._fabric.global_rank, "world_size": self._fabric.world_size}
        for batch in self._batches.epoch(epoch, start=start, **ranks):
            loss, n_samples = self._step(batch)
            self._position = self._position.after_batch(loss, n_samples)
            self._reporter.batch_done(self._position, lr)
            if number := self._asked_to_stop(interruption):
                self._refuse_not_finite()
                self._save()
                raise Interrupted(number)
        self._refuse_not_finite()
        done, self._position = self._position, self._position.next_epoch()
        self._save()  # first: curves are written into the same folder, and would make it again if it was removed
        self._reporter.epoch_done(done, lr)

    def _step(self, batch: Any) -> tuple[float, int]:
        """Mean loss and number of samples, over all ranks."""
        at = self._position
        seed_torch(self._seed, "batch", at.epoch, at.batch, self._fabric.global_rank)
        moved = self._fabric.to_device(batch)
        loss = self._model(moved, at.epoch)
        n_samples = len(moved[-1])
        if self._fabric.world_size > 1:
            own = loss.detach().float()  # in half precision 257 samples would be 256
            sums = self._fabric.all_reduce(torch.stack([own * n_samples, own.new_tensor(n_samples)]), reduce_op="sum")
            value, total = float(sums[0] / sums[1]), int(sums[1])
            # Gradients are averaged over ranks, each counting alike. Where a rank has fewer samples than another, each
            # of its samples would count for more than in one process.
            loss = loss * (n_samples * self._fabric.world_size / total)
        else:
            value, total = float(loss.detach()), n_samples
        if not math.isfinite(value):
            raise NotFinite(
                f"the loss is {value} in batch {at.batch} of epoch {at.epoch}. What is saved in "
                f"{self._run.checkpoints} is from before it: try a smaller learning rate, or look at that batch."
            )
        self._optimizer.zero_grad()
        self._fabric.backward(loss)
        self._optimizer.step()
        return value, total

    def _refuse_not_finite(self) -> None:
        """A batch with a finite loss can still throw the weights away, and no later loss would tell of the last one."""
        values = self._network.state_dict().items()
        broken = [name for name, value in values if value.is_floating_point() and not bool(value.isfinite().all())]
        if self._largest(len(broken)):
            at, what = self._position, some_of(broken) or "of another process"
            raise NotFinite(
                f"the network is not finite after batch {at.batch - 1} of epoch {at.epoch} ({what}). What is saved "
                f"in {self._run.checkpoints} is from before it: try a smaller learning rate."
            )

    def _resume(self) -> Position:
        found, problems = self._newest()
        for problem in problems:
            self._reporter.note(f"{problem} Going on from the one before it.")
        if found is None:
            if self._run.was_there:
                self._reporter.note(f"There is no checkpoint in {self._run.checkpoints}: training begins at its start.")
            return Position()
        is_finished = found.position.epoch > self._recipe.epochs
        if found.processes != self._fabric.world_size and not is_finished:
            raise EnergyAlignError(other_number(self._run.path, found.processes, self._fabric.world_size))
        found.restore(self._network, self._optimizer)
        if not is_finished:
            self._reporter.note(f"Going on from epoch {found.position.epoch}, batch {found.position.batch}.")
        if self._run.writes:
            drop_older(found.path)  # a process may have been killed right before it did
        return found.position

    def _newest(self) -> tuple[Checkpoint | None, list[str]]:
        """As the first rank finds it. The others might see files of a shared folder, written or removed, later."""
        first, config = self._fabric.is_global_zero, self._run.config_sha256
        found, problems = newest_checkpoint(self._run.checkpoints, config) if first else (None, [])
        path = self._fabric.broadcast(None if found is None else found.path)
        if path is not None and not first:
            found = Checkpoint(path, config)
        return found, problems

    def _save(self) -> None:
        if self._fabric.is_global_zero:
            with self._run.saving(make_again=True) as folder:
                save_checkpoint(
                    RunDirectory(folder).checkpoints, self._position, self._network, self._optimizer,
                    config=self._run.config_sha256, processes=self._fabric.world_size,
                )  # fmt: skip
        self._fabric.barrier()

    def _asked_to_stop(self, interruption: Interruption) -> int:
        """The number of the signal, or 0."""
        return self._largest(interruption.signal_number or 0)

    def _largest(self, number: int) -> int:
        """Of all ranks: all must stop after the same batch, or those that go on would wait for the others."""
        if self._fabric.world_size == 1:
            return number
        return int(self._fabric.all_reduce(torch.tensor(number), reduce_op="max"))


class _WithLoss(torch.nn.Module):  # type: ignore[misc]
    """From a batch to the loss. Processes average the gradients of what passes through the forward method of the module
    that Fabric wraps, and of nothing else: so all of the loss does."""

    def __init__(self, network: torch.nn.Module, loss: Loss) -> None:
        super().__init__()
        self.network, self._loss = network, loss

    def forward(self, batch: Any, epoch: int) -> torch.Tensor:
        """The loss of the network, as `TrainingLoop` has it."""
        return self._loss(self.network, batch, epoch)


def other_number(folder: Path, before: int, now: int) -> str:
    """Why a run that began with so many processes does not go on with another number of them."""
    return (
        f"the run in {folder} began with {before} process{'es' * (before > 1)} and cannot go on with {now}: batches "
        f"that are shared out otherwise give other weights. Start {before} again (--devices times --nodes), or give "
        "another --out."
    )


@contextlib.contextmanager
def compiled(network: torch.nn.Module) -> Iterator[None]:
    """Whoever calls the network inside, or a wrapper of it, runs compiled code; afterwards it is as it was.

    Compiled is the backbone, which takes nearly all of the time. Losses and heads get numbers that change from batch to
    batch or from epoch to epoch, for each of which torch would compile anew.
    """
    parts = _parts(network)
    for part in parts:
        # Not dynamic: code for any size of batch would, once a smaller last batch has asked for it, serve all the
        # others too, with other roundings than the code before it. A run that is resumed could not end the same.
        part.forward = torch.compile(part.forward, dynamic=False)
    try:
        yield
    finally:
        for part in parts:
            del part.forward
        # It keeps code for eight sizes of batches, and beyond that compiles no more, silently: of many trainings in one
        # process the later ones would not be what they are in a process that goes on with them.
        torch.compiler.reset()


def refuse_without_compiler(device: torch.device) -> None:
    """Compile something small, as whatever is missing is told best before a training begins."""
    try:
        torch.compile(lambda numbers: 2.0 * numbers + 1.0, dynamic=False)(torch.zeros(2, device=device))
    except Exception as error:  # of the many kinds that the parts of `torch.compile` have
        reason = str(error).strip().split("\n")[0].rstrip(".")
        raise EnergyAlignError(
            f"torch.compile does not work here ({reason}): install a C++ compiler (on Debian: apt install g++) or name "
            "one in the environment variable CXX, or leave out --compile."
        ) from error


def _parts(network: torch.nn.Module) -> list[torch.nn.Module]:
    from energyalign.experiments.nets.bbn import TwoBranches
    from energyalign.experiments.nets.random_paths import RandomPaths

    backbone = network.backbone if isinstance(network, Network) else network
    backbone = backbone.backbone if isinstance(backbone, FrozenBackbone) else backbone
    if isinstance(backbone, RandomPaths):
        raise EnergyAlignError(PATHS_ARE_NOT_COMPILED)
    return list(backbone.children()) if isinstance(backbone, TwoBranches) else [backbone]
