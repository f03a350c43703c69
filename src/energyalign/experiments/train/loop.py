"""The training loop of all experiments."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import torch
from lightning_fabric import Fabric

from energyalign.core._io.signals import Interrupted, Interruption
from energyalign.core.errors import CannotGoOn, EnergyAlignError, count_of, some_of
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
from energyalign.experiments.train.run_directory import MovedWhileWriting, RunDirectory
from energyalign.pytorch.ranks import take_from_first

Loss: TypeAlias = Callable[[torch.nn.Module, Any, int], torch.Tensor]


class EpochBatches(Protocol):
    """Batches that depend on nothing but the epoch and their number, so that a run can resume within an epoch."""

    @property
    def n_batches(self) -> int: ...

    def epoch(self, number: int, *, start: int = 0, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        """Yield this rank's part of the batches `start`, `start` + 1, ... of this epoch."""


class NotFinite(CannotGoOn):
    """The loss or the network became NaN or infinite."""


class TrainingLoop:
    """One training of one network, started or resumed from the checkpoints of its run directory.

    After any interruption the result has the same bytes as an uninterrupted run on the same machine: batches and random
    numbers are functions of seed, epoch and batch, and everything else is in the checkpoint.

    Several processes share every batch, with equal weight for every sample. Quantities of several samples, such as the
    statistics of batch normalisation and mixtures, are computed within each process. So the number of processes is
    part of the result, and a training must resume with as many. (SyncBatchNorm would come closer to a single process,
    but costs a collective operation in every layer, does not exist on CPUs, and is not what published multi-GPU results
    use.) At the end all processes have the running statistics of the first.

    Parameters
    ----------
    fabric : lightning_fabric.Fabric
        Device, precision and processes; launched.
    network : torch.nn.Module
        Trained in place.
    parameters : iterable, default None
        Parameters for the optimiser, or groups of them; None for all of the network. A group may have an
        ``lr_factor``, which multiplies the learning rate of the recipe.
    loss : callable
        ``loss(network, batch, epoch)``, the mean over the samples of the batch; epochs count from 1. It may call any
        part of the network: features, backbone, head.
    compile : bool, default False
        Compile the network with `torch.compile`, which delays the start; docs/performance.md says how much it saves.
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

        Raises
        ------
        Interrupted
            On Ctrl-C or SIGTERM, after the batch was finished and saved; after the last batch, the training is done.
        NotFinite
            If the loss is NaN or infinite, or a weight at the end of an epoch. The last good checkpoint is kept.
        """
        reporting = self._reporter.training(self._recipe, self._batches.n_batches, self._position)
        with self._compiling(), Interruption() as interruption, reporting:
            while self._position.epoch <= self._recipe.epochs:
                self._epoch(interruption)
        take_from_first(self._network)
        # After the block, which restores the former signal handlers, so that no signal is missed.
        if number := self._asked_to_stop(interruption):
            raise Interrupted(number)

    def _compiling(self) -> contextlib.AbstractContextManager[None]:
        """Compile the network, if asked to and if there is something left to train."""
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
        self._save()  # before the curves, which would create the folder again if it was removed
        self._reporter.epoch_done(done, lr)

    def _step(self, batch: Any) -> tuple[float, int]:
        """Take one optimiser step; return the mean loss and the number of samples over all ranks."""
        at = self._position
        seed_torch(self._seed, "batch", at.epoch, at.batch, self._fabric.global_rank)
        moved = self._fabric.to_device(batch)
        loss = self._model(moved, at.epoch)
        n_samples = len(moved[-1])
        if self._fabric.world_size > 1:
            own = loss.detach().float()  # in half precision 257 samples would be 256
            sums = self._fabric.all_reduce(torch.stack([own * n_samples, own.new_tensor(n_samples)]), reduce_op="sum")
            value, total = float(sums[0] / sums[1]), int(sums[1])
            # Gradients are averaged over ranks with equal weight. Without this factor, samples of a rank that has fewer
            # of them would weigh more than in a single process.
            loss = loss * (n_samples * self._fabric.world_size / total)
        else:
            value, total = float(loss.detach()), n_samples
        if not math.isfinite(value):
            raise NotFinite(
                f"the loss is {value} in batch {at.batch} of epoch {at.epoch}. The checkpoint in "
                f"{self._run.checkpoints} is from before it: try a smaller learning rate, or look at that batch."
            )
        self._optimizer.zero_grad()
        self._fabric.backward(loss)
        self._optimizer.step()
        return value, total

    def _refuse_not_finite(self) -> None:
        """Raise if a weight is NaN or infinite: a finite loss does not rule it out, and none follows the last step."""
        values = self._network.state_dict().items()
        broken = [name for name, value in values if value.is_floating_point() and not bool(value.isfinite().all())]
        if self._largest(len(broken)):
            at, what = self._position, some_of(broken) or "of another process"
            raise NotFinite(
                f"the network is not finite after batch {at.batch - 1} of epoch {at.epoch} ({what}). The checkpoint in "
                f"{self._run.checkpoints} is from before it: try a smaller learning rate."
            )

    def _resume(self) -> Position:
        found, problems = self._newest()
        for problem in problems:
            self._reporter.note(f"{problem} Resuming from the one before it.")
        if found is None:
            if self._run.was_there:
                self._reporter.note(f"There is no checkpoint in {self._run.checkpoints}: training from the start.")
            return Position()
        is_finished = found.position.epoch > self._recipe.epochs
        if found.processes != self._fabric.world_size and not is_finished:
            raise EnergyAlignError(other_number(self._run.path, found.processes, self._fabric.world_size))
        found.restore(self._network, self._optimizer)
        if not is_finished:
            self._reporter.note(f"Resuming from epoch {found.position.epoch}, batch {found.position.batch}.")
        if self._run.writes:
            drop_older(found.path)  # the last process may have been killed before it did
        return found.position

    def _newest(self) -> tuple[Checkpoint | None, list[str]]:
        """Return the checkpoint that the first rank finds: on a shared folder, others may see changes later."""
        first, config = self._fabric.is_global_zero, self._run.config_sha256
        found, problems = newest_checkpoint(self._run.checkpoints, config) if first else (None, [])
        path = self._fabric.broadcast(None if found is None else found.path)
        if path is not None and not first:
            found = Checkpoint(path, config)
        return found, problems

    def _save(self) -> None:
        if self._fabric.is_global_zero:
            try:
                self._write_checkpoint()
            except MovedWhileWriting:
                self._write_checkpoint()  # where the folder is now
        self._fabric.barrier()

    def _write_checkpoint(self) -> None:
        with self._run.saving(make_again=True) as folder:
            save_checkpoint(
                RunDirectory(folder).checkpoints, self._position, self._network, self._optimizer,
                config=self._run.config_sha256, processes=self._fabric.world_size,
            )  # fmt: skip

    def _asked_to_stop(self, interruption: Interruption) -> int:
        """Return the number of the signal, or 0."""
        return self._largest(interruption.signal_number or 0)

    def _largest(self, number: int) -> int:
        """Return the maximum over ranks: all must stop after the same batch, or some would wait for the others."""
        if self._fabric.world_size == 1:
            return number
        return int(self._fabric.all_reduce(torch.tensor(number), reduce_op="max"))


class _WithLoss(torch.nn.Module):  # type: ignore[misc]
    """The module that Fabric wraps. It computes the loss as well, because ranks average only the gradients of its
    forward method.
    """

    def __init__(self, network: torch.nn.Module, loss: Loss) -> None:
        super().__init__()
        self.network, self._loss = network, loss

    def forward(self, batch: Any, epoch: int) -> torch.Tensor:
        """Return the loss of a batch."""
        return self._loss(self.network, batch, epoch)


def other_number(folder: Path, before: int, now: int) -> str:
    """Explain why a run cannot be resumed with another number of processes."""
    return (
        f"the run in {folder} began with {count_of(before, 'process')} and cannot resume with {now}: another split of "
        f"the batches gives other weights. Start {before} again (--devices times --nodes), or give another --out."
    )


@contextlib.contextmanager
def compiled(network: torch.nn.Module) -> Iterator[None]:
    """Compile the backbone of a network within the block.

    The backbone takes nearly all of the time. Losses and heads get numbers that change with batch or epoch, for each of
    which torch would compile again.
    """
    parts = _parts(network)
    for part in parts:
        # Not dynamic: after a smaller last batch, torch would switch all batches to code for any size, which rounds
        # differently. A resumed run could then not end with the same bytes.
        part.forward = torch.compile(part.forward, dynamic=False)
    try:
        yield
    finally:
        for part in parts:
            del part.forward
        # torch keeps code for eight batch sizes and then silently compiles no more: later trainings in this process
        # would differ from trainings in a separate process.
        torch.compiler.reset()


def refuse_without_compiler(device: torch.device) -> None:
    """Compile a small function, and raise if that fails, before a training begins."""
    try:
        torch.compile(lambda numbers: 2.0 * numbers + 1.0, dynamic=False)(torch.zeros(2, device=device))
    except Exception as error:  # the parts of torch.compile raise many types
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
