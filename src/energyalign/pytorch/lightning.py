"""Energy aligning as a Lightning callback: one more entry in the trainer's list, no change to anything else."""

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from energyalign.core.errors import EnergyAlignError
from energyalign.pytorch.after_training import AfterTraining
from energyalign.pytorch.label_counts import LabelCounter


class EnergyAlignCallback(AfterTraining, Callback):  # type: ignore[misc]
    """Aligns the network when training ends, in place, and reports accuracy before and after.

    Evidence is the first validation loader, or the training loader if there is none. Training counts are counted
    from the batches of the first epoch. Checkpoints written during training hold the uncorrected network, so that
    training can go on from them; ``trainer.save_checkpoint(...)`` after ``fit`` saves the aligned one.

    Parameters
    ----------
    loader, evidence, counts, estimator, clusters, target_prior, head, class_names, tau
        All optional; see `energyalign.pytorch.after_training.AfterTraining`.
    network : str, optional
        Name of the attribute of the module that makes the logits, if the module's own ``forward`` does not.

    Attributes
    ----------
    shifts_, aligned_, metrics_
        See `AfterTraining`. The metrics also go to the trainer's loggers, as ``energyalign/...``.

    Examples
    --------
    >>> Trainer(callbacks=[EnergyAlignCallback()]).fit(module, train_loader, val_loader)  # doctest: +SKIP
    """

    def __init__(self, *loader: Any, network: str | None = None, **options: Any) -> None:
        super().__init__(*loader, **options)
        self.network = network
        self._counter = LabelCounter()

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002
        """Refuse a wrong `network` before training, not after."""
        self._network_of(pl_module)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        """Count the labels of the first epoch."""
        if self.counts is None and trainer.current_epoch == 0:
            self._counter.add_batch(batch)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Align, report, log."""
        loaders = _first(trainer.val_dataloaders), _first(trainer.train_dataloader)
        with trainer.precision_plugin.forward_context():
            if not self.align_or_warn(self._network_of(pl_module), *loaders, self._counter):
                return
        if trainer.is_global_zero:
            print(self.report())
        for logger in trainer.loggers:
            logger.log_metrics({f"energyalign/{name}": value for name, value in self.metrics_.items()})

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


def _first(loaders: Any) -> Any:
    """Of one, several or no loaders."""
    if isinstance(loaders, dict):
        loaders = list(loaders.values())
    return (loaders[0] if loaders else None) if isinstance(loaders, (list, tuple)) else loaders
