"""Align a trained torch model: collect its logits, fit shifts, fold them into its head."""

from typing import TYPE_CHECKING, Any

from energyalign.pytorch.align import align
from energyalign.pytorch.fold import AlignedModel, NotFolded, fold_shifts

if TYPE_CHECKING:
    from energyalign.pytorch.balanced import balanced_evidence

__all__ = ["AlignedModel", "NotFolded", "align", "balanced_evidence", "fold_shifts"]


def __getattr__(name: str) -> Any:
    """Import `balanced_evidence` on first access: only this function needs torchvision."""
    if name != "balanced_evidence":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from energyalign.pytorch.balanced import balanced_evidence
    except ModuleNotFoundError as error:
        raise ImportError(f"balanced_evidence needs {error.name}: pip install 'energyalign[vision]'.") from error
    return balanced_evidence
