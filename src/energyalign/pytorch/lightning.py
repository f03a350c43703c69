"""Energy aligning as a Lightning callback: one more entry in the trainer's list, no change to anything else."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import torch

from energyalign.core.errors import EnergyAlignError
from energyalign.core.evidence import EvidenceKind
from energyalign.core.names import Counts
from energyalign.core.objectives import Aims
from energyalign.core.sharing import SharingChoice
from energyalign.pytorch.after_training import AfterTraining, warning_instead_of_error
from energyalign.pytorch.label_counts import LabelCounter
from energyalign.pytorch.ranks import in_a_group

if TYPE_CHECKING:
    from lightning.pytorch import Callback, LightningModule, Trainer
else:
    try:
        from lightning.pytorch import Callback, LightningModule, Trainer
    except ModuleNotFoundError:
        try:
            from pytorch_lightning import Callback, LightningModule, Trainer  # the same under its older name
        except ModuleNotFoundError as error:
            raise ImportError("the callback for Lightning needs Lightning: pip install lightning.") from error

# By name: which of them exist, and in which package, depends on the version.
_WEIGHT_AVERAGING = {"StochasticWeightAveraging", "WeightAveraging", "EMAWeightAveraging"}


class EnergyAlignCallback(AfterTraining, Callback):  # type: ignore[misc]
    """Aligns the network when training ends, in place, and reports accuracy before and after.

    Evidence is the first validation loader, or the training loader if there is none; its batches go through the
    module's batch hooks and the trainer's precision as in validation (or training). Training counts are counted from
    the batches of the first whole epoch. Checkpoints written during training hold the uncorrected network, so that
    training can go on from them; ``trainer.save_checkpoint(...)`` after ``fit`` saves the aligned one.

    Parameters
    ----------
    loader, evidence, counts, estimator, clusters, target_prior, head, class_names, tau, scoring, costs, minimum_recall,
    minimum_precision
        All optional; see `energyalign.pytorch.after_training.AfterTraining`.
    network : str, optional
        Name of the attribute of the module that makes the logits, if the module's own ``forward`` does not.

    Attributes
    ----------
    shifts_, aligned_, metrics_
        See `AfterTraining`. The metrics also go to the trainer's loggers, as ``energyalign/...``, with
        ``energyalign/folded``: 1 if the network itself is corrected, 0 if only `aligned_` is.

    Notes
    -----
    Callbacks that average weights replace them when training ends: this one must come after them in the list. The
    checkpoints of Lightning's ``WeightAveraging`` hold its own average even after ``fit``: with it, save the network
    by ``torch.save(module.state_dict(), ...)``.

    Examples
    --------
    >>> Trainer(callbacks=[EnergyAlignCallback()]).fit(module, train_loader, val_loader)  # doctest: +SKIP
    """

    _counter: LabelCounter | None
    _whole_epoch: bool
    _from_the_start: bool

    def __init__(
        self,
        loader: Iterable[Any] | None = None,
        *,
        evidence: EvidenceKind | None = None,
        counts: Counts | None = None,
        estimator: str = "auto",
        clusters: SharingChoice = "auto",
        target_prior: Counts | None = None,
        head: str | None = None,
        class_names: Sequence[str] | None = None,
        tau: float = 1.0,
        network: str | None = None,
        **aims: Unpack[Aims],
    ) -> None:
        super().__init__(
            loader, evidence=evidence, counts=counts, estimator=estimator, clusters=clusters,
            target_prior=target_prior, head=head, class_names=class_names, tau=tau, **aims,
        )  # fmt: skip
        self.network = network
        self._forget_counts()

    @property
    def state_key(self) -> str:
        """One callback for each of several networks may be in the list."""
        return str(self._generate_state_key(network=self.network))

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:  # noqa: ARG002
        """Forget what an earlier fit counted; here, because a checkpoint's counts arrive between this and the start."""
        if stage == "fit":
            self._forget_counts()

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Refuse what cannot work before training, not after."""
        self.forget_earlier_run(self._network_of(pl_module))
        for later in trainer.callbacks[trainer.callbacks.index(self) + 1 :]:
            if _WEIGHT_AVERAGING & {kind.__name__ for kind in type(later).__mro__}:
                raise EnergyAlignError(
                    f"{type(later).__name__} comes after EnergyAlignCallback and would replace the aligned weights by "
                    "its average: put EnergyAlignCallback last in the list."
                )

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        """Count the labels of the first whole epoch."""
        if self.counts is not None or self._whole_epoch:
            return
        if batch_idx == 0:
            self._counter, self._from_the_start = LabelCounter(), trainer.global_step == 0
        if self._counter is not None:  # it is None in the rest of an epoch that was resumed
            self._counter.add_batch(batch)
            self._whole_epoch = trainer.is_last_batch

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Align, report, log."""
        network, held_out = self._network_of(pl_module), _first(trainer.val_dataloaders)
        training = _as_the_trainer_reads(trainer, _first(trainer.train_dataloader), trainer.num_training_batches)
        if held_out is not None:
            held_out = _as_the_trainer_reads(trainer, held_out, trainer.num_val_batches[0])
        with _stage_of(trainer, validating=held_out is not None), trainer.precision_plugin.forward_context():
            if not self.align_or_warn(network, held_out, training, self._counted):
                return
        if trainer.is_global_zero:
            print(self.report())
        with warning_instead_of_error("the model is aligned, but a logger did not take the metrics"):
            for logger in trainer.loggers:
                logger.log_metrics(self.numbers_to_log("energyalign/"), step=trainer.global_step)

    def state_dict(self) -> dict[str, Any]:
        """The counts of a whole epoch, for a run that is resumed later.

        In a process group a rank knows its own share only, and a checkpoint holds what rank 0 knows: nothing is kept,
        and a resumed run counts again.
        """
        if self._counter is None or not self._whole_epoch or in_a_group():
            return {}
        return {"labels_seen": self._counter.seen}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the counts of the run that wrote the checkpoint."""
        if "labels_seen" in state_dict:
            self._counter, self._whole_epoch = LabelCounter(), True
            self._counter.seen = state_dict["labels_seen"]

    def _forget_counts(self) -> None:
        self._counter, self._whole_epoch, self._from_the_start = None, False, False

    def _counted(self) -> LabelCounter:
        """What was counted, if it is a whole epoch, or all that the network was ever trained on."""
        known = self._whole_epoch or self._from_the_start
        return self._counter if self._counter is not None and known else LabelCounter()

    def _network_of(self, module: LightningModule) -> torch.nn.Module:
        if self.network is None:
            if type(module).forward is LightningModule.forward:
                raise EnergyAlignError(
                    f"{type(module).__name__} has no forward of its own: name the attribute that makes the logits, for "
                    "example EnergyAlignCallback(network='net')."
                )
            return module
        found = getattr(module, self.network, None)
        if not isinstance(found, torch.nn.Module):
            raise EnergyAlignError(f"{type(module).__name__} has no network called {self.network!r}.")
        return found


def _as_the_trainer_reads(trainer: Trainer, loader: Iterable[Any], most: float) -> Iterator[Any]:
    """The batches as Lightning's loops give them to a step: as many, and through the same conversions and hooks."""
    for batch in itertools.islice(loader, None if math.isinf(most) else int(most)):
        converted = trainer.precision_plugin.convert_input(batch)
        # Lightning's own loops call this hook by this name; `batch_to_device` calls the other two.
        converted = trainer.lightning_module._on_before_batch_transfer(converted, dataloader_idx=0)
        yield trainer.strategy.batch_to_device(converted, dataloader_idx=0)


@contextlib.contextmanager
def _stage_of(trainer: Trainer, *, validating: bool) -> Iterator[None]:
    """Batch hooks ask the trainer whether it trains, to augment then; over held-out data it must say no."""
    trainer.validating = validating
    try:
        yield
    finally:
        trainer.training = True


def _first(loaders: Any) -> Any:
    """Of one, several or no loaders."""
    if isinstance(loaders, dict):
        loaders = list(loaders.values())
    return (_first(loaders[0]) if loaders else None) if isinstance(loaders, (list, tuple)) else loaders
