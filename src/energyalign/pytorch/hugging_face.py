"""Energy aligning as a callback of the Hugging Face Trainer: one more entry in its list, no change to anything else."""

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
    """Aligns the model when training ends, in place, and reports accuracy before and after.

    With ``load_best_model_at_end`` it is the best model that is aligned; ``trainer.save_model()`` then saves it as any
    other. Evidence is what the trainer evaluated on during training, or else the training data; of several evaluation
    sets it is the last one evaluated (give ``loader=`` and ``evidence=`` to choose). Training counts are the labels'
    column of the dataset, or its ``.targets`` or ``.labels``.

    Parameters
    ----------
    loader, evidence, counts, estimator, clusters, target_prior, head, class_names, tau, scoring, costs, minimum_recall,
    minimum_precision
        All optional; see `energyalign.pytorch.after_training.AfterTraining`.

    Attributes
    ----------
    shifts_, aligned_, metrics_
        See `AfterTraining`. The metrics are also in ``trainer.state.log_history``, as ``energyalign_...``, with
        ``energyalign_folded``: 1 if the model itself is corrected, 0 if only `aligned_` is. TensorBoard and the like
        do not get them: callbacks cannot reach those, and they are closed when training ends. Log
        ``callback.metrics_`` there yourself.

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
        """Forget what was aligned and evaluated before."""
        self.forget_earlier_run(trainer["model"])
        self._training, self._evaluated = True, None

    def on_evaluate(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,  # noqa: ARG002
        control: TrainerControl,  # noqa: ARG002
        **trainer: Any,
    ) -> None:
        """Note the data; what is evaluated or predicted outside training may be anything, a test set for example."""
        if self._training:
            self._evaluated = trainer["eval_dataloader"]

    def on_train_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **trainer: Any,
    ) -> None:
        """Align, report, log."""
        training, held_out = trainer["train_dataloader"], self._evaluated
        self._training, self._evaluated = False, None
        if not self.align_or_warn(trainer["model"], held_out, training, lambda: _counted(training)):
            return
        if state.is_world_process_zero:
            print(self.report())
        state.log_history.append(
            self.numbers_to_log("energyalign_") | {"epoch": state.epoch, "step": state.global_step}
        )


def _counted(loader: Any) -> LabelCounter:
    counter = LabelCounter()
    counter.add(_labels_of(getattr(loader, "dataset", None)))
    return counter


def _labels_of(dataset: Any) -> Any:
    """The labels of all items if the dataset keeps them apart from the items, or None.

    Items are not asked for one by one: each would be read and transformed only to be thrown away.
    """
    if isinstance(dataset, Subset):
        whole = _labels_of(dataset.dataset)
        return None if whole is None else [whole[i] for i in dataset.indices]
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        return None  # a stream may have names of columns, but it has no columns
    columns = getattr(dataset, "column_names", None)
    if columns is not None:
        name = next((key for key in LABEL_KEYS if key in columns), None)
        # A transform set on the dataset would run over the column, too; without a format there is none.
        plain = dataset.with_format(None) if hasattr(dataset, "with_format") else dataset
        return None if name is None else list(plain[name])
    found: Any = getattr(dataset, "targets", getattr(dataset, "labels", None))
    # As many as items: they might be the names of the classes.
    return found if hasattr(found, "__len__") and len(found) == len(dataset) else None
