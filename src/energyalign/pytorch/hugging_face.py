"""Callback for the Hugging Face Trainer that aligns the model when training ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.utils.data import IterableDataset, Subset

from energyalign.pytorch.after_training import AfterTraining
from energyalign.pytorch.batches import LABEL_KEYS
from energyalign.pytorch.label_counts import LabelCounter

if TYPE_CHECKING:
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
else:
    try:
        from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
    except ModuleNotFoundError as error:
        raise ImportError(
            "the callback for Hugging Face needs transformers: pip install transformers accelerate."
        ) from error


class EnergyAlignCallback(AfterTraining, TrainerCallback):  # type: ignore[misc]
    """Callback that aligns the model in place when training ends, and reports accuracy before and after.

    With ``load_best_model_at_end`` the best model is aligned; ``trainer.save_model()`` then saves it as usual. Evidence
    is the data that the trainer evaluated last during training, or else the training data (give ``loader=`` and
    ``evidence=`` to choose). Training counts are taken from the label column of the dataset, or from its ``.targets``
    or ``.labels``.

    Parameters
    ----------
    loader, evidence, counts, estimator, clusters, target_prior, head, class_names, tau, multilabel, ignore_index,
    scoring, costs, minimum_recall, minimum_precision
        All optional; see `energyalign.pytorch.after_training.AfterTraining`.

    Attributes
    ----------
    shifts_, aligned_, metrics_
        See `AfterTraining`. The metrics are also in ``trainer.state.log_history``, as ``energyalign_...``, with
        ``energyalign_folded``: 1 if the model itself is aligned, 0 if only `aligned_` is. They are not sent to
        trackers such as TensorBoard, which are closed when training ends: log ``callback.metrics_`` there yourself.

    Examples
    --------
    >>> Trainer(model, arguments, ..., callbacks=[EnergyAlignCallback()]).train()  # doctest: +SKIP
    """

    _training = False
    _evaluated: Any = None

    def on_train_begin(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,  # noqa: ARG002
        control: TrainerControl,  # noqa: ARG002
        **trainer: Any,
    ) -> None:
        """Reset the state of an earlier training."""
        self.forget_earlier_run(trainer["model"])
        self._training, self._evaluated = True, None

    def on_evaluate(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,  # noqa: ARG002
        control: TrainerControl,  # noqa: ARG002
        **trainer: Any,
    ) -> None:
        """Remember the data. Evaluations outside training are ignored: they may use a test set."""
        if self._training:
            self._evaluated = trainer["eval_dataloader"]

    def on_train_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **trainer: Any,
    ) -> None:
        """Align the model, report the result and log it."""
        training, held_out = trainer["train_dataloader"], self._evaluated
        self._training, self._evaluated = False, None
        if not self.align_or_warn(trainer["model"], held_out, training, lambda: self._count_labels(training)):
            return
        if state.is_world_process_zero:
            print(self.report())
        state.log_history.append(
            self.numbers_to_log("energyalign_") | {"epoch": state.epoch, "step": state.global_step}
        )

    def _count_labels(self, loader: Any) -> LabelCounter:
        counter = self.new_counter()
        counter.add(_labels_of(getattr(loader, "dataset", None)))
        return counter


def _labels_of(dataset: Any) -> Any:
    """Return the labels of all items if the dataset has them separately, else None.

    Items are not read one by one: that would load and transform every one of them.
    """
    if isinstance(dataset, Subset):
        whole = _labels_of(dataset.dataset)
        return None if whole is None else [whole[i] for i in dataset.indices]
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        return None  # a stream has column names, but no columns
    columns = getattr(dataset, "column_names", None)
    if columns is not None:
        name = next((key for key in LABEL_KEYS if key in columns), None)
        # Removing the format also removes the dataset's transform, which would run on the column too.
        plain = dataset.with_format(None) if hasattr(dataset, "with_format") else dataset
        return None if name is None else list(plain[name])
    labels: Any = getattr(dataset, "targets", getattr(dataset, "labels", None))
    # Compare the lengths: the attribute may hold the names of the classes.
    return labels if hasattr(labels, "__len__") and len(labels) == len(dataset) else None
