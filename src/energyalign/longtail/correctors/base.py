"""What a corrector is: something done to a trained network, or to its logits, before the test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from energyalign.core.shifts import Shifts

if TYPE_CHECKING:
    from energyalign.experiment.evidence import EvidencePlan
    from energyalign.longtail.setting import Setting
    from energyalign.longtail.trained import Trained


class Corrected(NamedTuple):
    """What came of it.

    Attributes
    ----------
    logits : array of shape (n_test, n_classes)
        Of the test images, corrected.
    shifts : Shifts or None
        If all it did was to add a number per class.
    details : mapping
        What it chose on the way, for the row: numbers, strings, lists.
    """

    logits: npt.NDArray[np.float32]
    shifts: Shifts | None = None
    details: Mapping[str, Any] = {}


class Corrector(Protocol):
    """One way of correcting. It may look at the training data and at evidence drawn from them; never at test labels."""

    @property
    def reads_evidence(self) -> bool:
        """Whether another draw of evidence could change the result."""

    def check(self, setting: Setting) -> None:
        """Refuse, before any training, what it could not correct."""

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:
        """The logits of the test images, corrected."""
