"""Energy aligning as a callback of the Hugging Face Trainer: one more entry in its list, no change to anything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from energyalign.pytorch.after_training import AfterTraining
from energyalign.pytorch.batches import LABEL_KEYS
from energyalign.pytorch.label_counts import LabelCounter


class EnergyAlignCallback(AfterTraining, TrainerCallback):  # type: ignore[misc]
    """Aligns the model when training ends, in place, and reports accuracy before and after.

    With ``load_best_model_at_end`` it is the best model that is aligned; ``trainer.save_model()`` then saves it as any
    other. Evidence is the evaluation data if the trainer evaluates during training, or else the training data.

    Parameters
    ----------
    loader, evidence, counts, estimator, clusters, target_prior, head, class_names, tau
        All optional; see `energyalign.pytorch.after_training.AfterTraining`.

    Attributes
    ----------
    shifts_, aligned_, metrics_
        See `AfterTraining`. The metrics are also in ``trainer.state.log_history``, as ``energyalign_...``.

    Examples
    --------
    >>> Trainer(model, arguments, ..., callbacks=[EnergyAlignCallback()]).train()  # doctest: +SKIP
    """

    def on_train_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **trainer: Any,
    ) -> None:
        """Align, report, log."""
        training = trainer["train_dataloader"]
        counter = LabelCounter()
        if self.counts is None:
            counter.add(_labels_of(training.dataset))
        if not self.align_or_warn(trainer["model"], trainer["eval_dataloader"], training, counter):
            return
        if state.is_world_process_zero:
            print(self.report())
        state.log_history.append(
            {"step": state.global_step} | {f"energyalign_{name}": value for name, value in self.metrics_.items()}
        )


def _labels_of(dataset: Any) -> Any:
    """The column of labels, or the labels item by item; None for a dataset that can only be streamed."""
    columns = getattr(dataset, "column_names", None)
    if columns is not None:
        name = next((key for key in LABEL_KEYS if key in columns), None)
        return None if name is None else list(dataset[name])
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        return None
    return [_label_of(dataset[i]) for i in range(len(dataset))] or None


def _label_of(item: Any) -> Any:
    if isinstance(item, Mapping):
        return next((item[key] for key in LABEL_KEYS if key in item), -1)
    return item[1] if isinstance(item, (tuple, list)) and len(item) == 2 else -1
