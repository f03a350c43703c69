"""Callback for Lightning that aligns the network when training ends."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import torch

from energyalign.core.errors import EnergyAlignError
from energyalign.core.evidence import EvidenceKind
from energyalign.core.heads import IGNORE_INDEX
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
            from pytorch_lightning import Callback, LightningModule, Trainer  # its older name
        except ModuleNotFoundError as error:
            raise ImportError("the callback for Lightning needs Lightning: pip install lightning.") from error

# Names, because the existence and the package of these classes depend on the version.
_WEIGHT_AVERAGING = {"StochasticWeightAveraging", "WeightAveraging", "EMAWeightAveraging"}


class EnergyAlignCallback(AfterTraining, Callback):  # type: ignore[misc]
    """Callback that aligns the network in place when training ends, and reports accuracy before and after.

    Evidence is the first validation loader, or the training loader if there is none; its batches go through the
    module's batch hooks and the trainer's precision as in validation (or training). Training counts are counted from
    the batches of the first complete epoch. Checkpoints written during training hold the raw network, so that training
    can resume from them; ``trainer.save_checkpoint(...)`` after ``fit`` saves the aligned network.

    Parameters
    ----------
    loader, evidence, counts, estimator, clusters, target_prior, head, class_names, tau, multilabel, ignore_index,
    scoring, costs, minimum_recall, minimum_precision
        All optional; see `energyalign.pytorch.after_training.AfterTraining`.
    network : str, default=None
        Attribute of the module that computes the logits; by default the module's own ``forward`` does.

    Attributes
    ----------
    shifts_, aligned_, metrics_
        See `AfterTraining`. The metrics also go to the trainer's loggers, as ``energyalign/...``, with
        ``energyalign/folded``: 1 if the network itself is aligned, 0 if only `aligned_` is.

    Notes
    -----
    Callbacks that average weights replace them when training ends: this callback must come after them in the list.
    Checkpoints of Lightning's ``WeightAveraging`` hold its own average even after ``fit``: with it, save the network
    with ``torch.save(module.state_dict(), ...)``.

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
        multilabel: bool = False,
        ignore_index: int = IGNORE_INDEX,
        network: str | None = None,
        **aims: Unpack[Aims],
    ) -> None:
        super().__init__(
            loader, evidence=evidence, counts=counts, estimator=estimator, clusters=clusters,
            target_prior=target_prior, head=head, class_names=class_names, tau=tau, multilabel=multilabel,
            ignore_index=ignore_index, **aims,
        )  # fmt: skip
        self.network = network
        self._forget_counts()

    @property
    def state_key(self) -> str:
        """Key of the state in checkpoints. There may be a callback for each of several networks."""
        return str(self._generate_state_key(network=self.network))

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:  # noqa: ARG002
        """Reset the counts of an earlier fit, before a checkpoint restores its counts; `on_fit_start` is too late."""
        if stage == "fit":
            self._forget_counts()

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Raise errors before training, not after."""
        self.forget_earlier_run(self._network_of(pl_module))
        for later in trainer.callbacks[trainer.callbacks.index(self) + 1 :]:
            if _WEIGHT_AVERAGING & {kind.__name__ for kind in type(later).__mro__}:
                raise EnergyAlignError(
                    f"EnergyAlignCallback must come after {type(later).__name__}, which would replace the aligned "
                    "weights with its average: put EnergyAlignCallback last in the list."
                )

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        """Count the labels of the first complete epoch."""
        if self.counts is not None or self._whole_epoch:
            return
        if batch_idx == 0:
            self._counter, self._from_the_start = self.new_counter(), trainer.global_step == 0
        if self._counter is not None:  # None in the rest of a resumed epoch
            self._counter.add_batch(batch)
            self._whole_epoch = trainer.is_last_batch

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Align the network, report the result and log it."""
        network, held_out = self._network_of(pl_module), _first(trainer.val_dataloaders)
        training = _read_like_trainer(trainer, _first(trainer.train_dataloader), trainer.num_training_batches)
        if held_out is not None:
            held_out = _read_like_trainer(trainer, held_out, trainer.num_val_batches[0])
        with _stage_of(trainer, validating=held_out is not None), trainer.precision_plugin.forward_context():
            if not self.align_or_warn(network, held_out, training, self._usable_counter):
                return
        if trainer.is_global_zero:
            print(self.report())
        with warning_instead_of_error("the model is aligned, but a logger refused the metrics"):
            for logger in trainer.loggers:
                logger.log_metrics(self.numbers_to_log("energyalign/"), step=trainer.global_step)

    def state_dict(self) -> dict[str, Any]:
        """Return the counts of a complete epoch, for a run that is resumed.

        In a process group a rank knows only its own share, and a checkpoint holds the state of rank 0: nothing is
        saved, and a resumed run counts again.
        """
        if self._counter is None or not self._whole_epoch or in_a_group():
            return {}
        return {"labels_seen": self._counter.seen}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the counts from the checkpoint."""
        if "labels_seen" in state_dict:
            self._counter, self._whole_epoch = self.new_counter(), True
            self._counter.seen = state_dict["labels_seen"]

    def _forget_counts(self) -> None:
        self._counter, self._whole_epoch, self._from_the_start = None, False, False

    def _usable_counter(self) -> LabelCounter:
        """Return the counter if it saw a complete epoch, or all training batches; else an empty one."""
        known = self._whole_epoch or self._from_the_start
        return self._counter if self._counter is not None and known else self.new_counter()

    def _network_of(self, module: LightningModule) -> torch.nn.Module:
        if self.network is None:
            if type(module).forward is LightningModule.forward:
                raise EnergyAlignError(
                    f"{type(module).__name__} has no forward: name the attribute that computes the logits, for example "
                    "EnergyAlignCallback(network='net')."
                )
            return module
        network = getattr(module, self.network, None)
        if not isinstance(network, torch.nn.Module):
            raise EnergyAlignError(
                f"{type(module).__name__} has no module named {self.network!r}: name the attribute that computes the "
                "logits."
            )
        return network


def _read_like_trainer(trainer: Trainer, loader: Iterable[Any], n_batches: float) -> Iterator[Any]:
    """Yield as many batches as Lightning's loops do, with the same conversions and hooks."""
    for batch in itertools.islice(loader, None if math.isinf(n_batches) else int(n_batches)):
        converted = trainer.precision_plugin.convert_input(batch)
        # Lightning's loops call this hook by this name; `batch_to_device` calls the other two.
        converted = trainer.lightning_module._on_before_batch_transfer(converted, dataloader_idx=0)
        yield trainer.strategy.batch_to_device(converted, dataloader_idx=0)


@contextlib.contextmanager
def _stage_of(trainer: Trainer, *, validating: bool) -> Iterator[None]:
    """Set the trainer's stage: batch hooks may augment in training, but must not on held-out data."""
    trainer.validating = validating
    try:
        yield
    finally:
        trainer.training = True


def _first(loaders: Any) -> Any:
    """Return the first loader, or None if there are none."""
    if isinstance(loaders, dict):
        loaders = list(loaders.values())
    return (_first(loaders[0]) if loaders else None) if isinstance(loaders, (list, tuple)) else loaders
