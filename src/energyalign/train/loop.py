"""The one training loop: every experiment of the project goes through it."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeAlias

import torch
from lightning.fabric import Fabric

from energyalign.core.errors import EnergyAlignError
from energyalign.train.checkpoint import newest_checkpoint, save_checkpoint
from energyalign.train.interruption import Interrupted, Interruption
from energyalign.train.position import Position
from energyalign.train.randomness import seed_torch
from energyalign.train.recipe import Recipe
from energyalign.train.reporter import Reporter
from energyalign.train.run_directory import RunDirectory

Loss: TypeAlias = Callable[[torch.nn.Module, Any, int], torch.Tensor]


class EpochBatches(Protocol):
    """Batches that are a function of the epoch and their number alone, so that a run can resume inside an epoch."""

    @property
    def n_batches(self) -> int: ...

    def epoch(self, number: int, *, start: int = 0, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        """Batches `start`, `start` + 1, ... of this epoch; a rank gets its part of each."""


class NotFinite(EnergyAlignError):
    """The loss became NaN or infinite."""


class Training:
    """One training of one network: starts, goes on where its run directory says it stopped, and ends the same.

    Whatever interrupts it, the result is byte for byte that of an uninterrupted run on the same machine: batches and
    random numbers are functions of seed, epoch and batch, and everything else is in the checkpoint.

    Parameters
    ----------
    fabric : lightning.fabric.Fabric
        Device, precision and processes; launched.
    network : torch.nn.Module
        Trained in place.
    parameters : iterable
        What the optimiser gets, parameters or groups of them; all of the network unless given. A group that learns
        slower or faster than the recipe says has an ``lr_factor``.
    batches : EpochBatches
    loss : callable
        ``loss(model, batch, epoch)``, the mean over the samples of the batch; epochs count from 1.
    recipe : Recipe
    run : RunDirectory
    seed : int
    reporter : Reporter
        Is told what happens, for people.
    """

    def __init__(
        self,
        fabric: Fabric,
        network: torch.nn.Module,
        *,
        parameters: Iterable[Any] | None = None,
        batches: EpochBatches,
        loss: Loss,
        recipe: Recipe,
        run: RunDirectory,
        seed: int,
        reporter: Reporter,
    ) -> None:
        self._fabric, self._network, self._batches, self._loss = fabric, network, batches, loss
        self._recipe, self._run, self._seed, self._reporter = recipe, run, seed, reporter
        chosen = network.parameters() if parameters is None else parameters
        self._model, self._optimizer = fabric.setup(network, recipe.optimizer.make(chosen))
        self._position = self._resumed()

    def finish(self) -> None:
        """Train to the end.

        Raises
        ------
        Interrupted
            On Ctrl-C or SIGTERM, after the batch was finished and saved. If it came after the last batch, the training
            is finished; what would have followed it is not begun.
        NotFinite
            If the loss is NaN or infinite; the last good checkpoint is kept.
        """
        telling = self._reporter.training(self._recipe, self._batches.n_batches, self._position)
        with Interruption() as interruption, telling:
            while self._position.epoch <= self._recipe.epochs:
                self._epoch(interruption)
        # Here and not inside: from now on signals do again what they did before, so that none goes unheard.
        if self._asked_to_stop(interruption):
            raise Interrupted(interruption.signal_number or signal.SIGTERM)

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
            if self._asked_to_stop(interruption):
                self._save()
                raise Interrupted(interruption.signal_number or signal.SIGTERM)
        self._reporter.epoch_done(self._position, lr)
        self._position = self._position.next_epoch()
        self._save()

    def _step(self, batch: Any) -> tuple[float, int]:
        """Mean loss and number of samples, over all ranks."""
        at = self._position
        seed_torch(self._seed, "batch", at.epoch, at.batch, self._fabric.global_rank)
        moved = self._fabric.to_device(batch)
        loss = self._loss(self._model, moved, at.epoch)
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
                f"the loss is {value} in batch {at.batch} of epoch {at.epoch}. The last checkpoint in "
                f"{self._run.checkpoints} is from before it: try a smaller learning rate, or look at that batch."
            )
        self._optimizer.zero_grad()
        self._fabric.backward(loss)
        self._optimizer.step()
        return value, total

    def _resumed(self) -> Position:
        found, problems = newest_checkpoint(self._run.checkpoints)
        for problem in problems:
            self._reporter.note(f"{problem} Going on from the one before it.")
        if found is None:
            return Position()
        found.restore(self._network, self._optimizer)
        if found.position.epoch <= self._recipe.epochs:
            self._reporter.note(f"Going on from epoch {found.position.epoch}, batch {found.position.batch}.")
        return found.position

    def _save(self) -> None:
        if self._fabric.is_global_zero:
            save_checkpoint(self._run.checkpoints, self._position, self._network, self._optimizer)
        self._fabric.barrier()

    def _asked_to_stop(self, interruption: Interruption) -> bool:
        """On any rank: all must stop after the same batch, or those that go on would wait for the others."""
        asked = interruption.signal_number is not None
        if self._fabric.world_size == 1:
            return asked
        return bool(self._fabric.all_reduce(torch.tensor(float(asked)), reduce_op="sum"))
