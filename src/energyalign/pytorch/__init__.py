"""From a trained torch model to logits, and from shifts back into the model."""

from typing import TYPE_CHECKING, Any

from energyalign.pytorch.align import align
from energyalign.pytorch.fold import AlignedModel, NotFolded, fold_shifts

if TYPE_CHECKING:
    from energyalign.pytorch.balanced import balanced_evidence

__all__ = ["AlignedModel", "NotFolded", "align", "balanced_evidence", "fold_shifts"]


def __getattr__(name: str) -> Any:
    """`balanced_evidence` needs torchvision, which the rest does not: it is imported when asked for."""
    if name != "balanced_evidence":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from energyalign.pytorch.balanced import balanced_evidence
    except ModuleNotFoundError as error:
        raise ImportError(f"balanced_evidence needs {error.name}: pip install 'energyalign[vision]'.") from error
    return balanced_evidence
