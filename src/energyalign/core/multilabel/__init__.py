"""Independent labels, each with its own sigmoid: evidence, fit and shifts."""

from energyalign.core.multilabel.evidence import MultilabelEvidence
from energyalign.core.multilabel.fitting import fit_head, fit_multilabel
from energyalign.core.multilabel.shifts import MultilabelShifts, load_shifts, parse_shifts

__all__ = ["MultilabelEvidence", "MultilabelShifts", "fit_head", "fit_multilabel", "load_shifts", "parse_shifts"]
