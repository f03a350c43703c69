"""Errors and warnings of energyalign, and helpers for their messages."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import ClassVar

from energyalign.core._io.terminal import clean

MAX_NAMES_SHOWN = 8
_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


class EnergyAlignError(ValueError):
    """Invalid input. The message names the input and the remedy."""

    exit_code: ClassVar[int] = 2
    """Exit code of a command that ends with this error."""

    def __init__(self, message: str = "") -> None:
        super().__init__(clean(message))  # Python prints it as it is


class BadValueError(EnergyAlignError):
    """A logit is NaN or +inf, or all logits of a row are -inf; `sample` is the number of the row, if known."""

    sample: int | None = None


class CannotGoOn(EnergyAlignError):
    """Work on valid input that could not be finished. Results so far are kept."""

    exit_code: ClassVar[int] = 1


class TryAgain(CannotGoOn):
    """A temporary failure: the same command may succeed later."""

    exit_code: ClassVar[int] = 75  # sysexits.h: a temporary failure


class UntrustedEstimateWarning(UserWarning):
    """The diagnostics of an estimate cast doubt on it. The message says why and what to do."""


def warn_untrusted(concern: str) -> None:
    """Issue an `UntrustedEstimateWarning` that points to the caller's line outside this package."""
    frame, level = sys._getframe().f_back, 1
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(clean(concern), UntrustedEstimateWarning, stacklevel=level + 1)


def some_of(names: Sequence[object]) -> str:
    """Format names for a message: ``a, b, c and 12 more``."""
    shown = ", ".join(str(name) for name in names[:MAX_NAMES_SHOWN])
    left = len(names) - MAX_NAMES_SHOWN
    return f"{shown} and {left:,} more" if left > 0 else shown


def classes_of(names: Sequence[object]) -> str:
    """Format classes for a message: ``class 9``, ``classes 9, 8``."""
    return f"{'class' if len(names) == 1 else 'classes'} {some_of(names)}"


def count_of(number: float, thing: str) -> str:
    """Format a count for a message: ``1 epoch``, ``2 epochs``, ``1,000 classes``."""
    plural = "" if number == 1 else "es" if thing.endswith("s") else "s"
    return f"{number:,} {thing}{plural}"


def reason_of(error: BaseException) -> str:
    """Return the first line of an error's message, or its type."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].strip()
