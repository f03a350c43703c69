"""From a trained torch model to logits, and from shifts back into the model."""

from energyalign.pytorch.align import align
from energyalign.pytorch.aligned_model import AlignedModel
from energyalign.pytorch.fold import NotFolded, fold_shifts

__all__ = ["AlignedModel", "NotFolded", "align", "fold_shifts"]
