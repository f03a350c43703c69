"""The errors and the one warning that energyalign raises on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

MOST_NAMES_SHOWN = 8


class EnergyAlignError(ValueError):
    """Input that cannot be used. The message names the input and the remedy."""

    exit_code: ClassVar[int] = 2
    """What a command that ends with it exits with."""


class BadValueError(EnergyAlignError):
    """A number that is none among the logits; `sample` is the number of its row, if it is known."""

    sample: int | None = None


class CannotGoOn(EnergyAlignError):
    """Work that began with good input and could not be finished. What was done before is kept."""

    exit_code: ClassVar[int] = 1


class TryAgain(CannotGoOn):
    """Nothing is wrong with what was asked for: later the same command may succeed."""

    exit_code: ClassVar[int] = 75  # sysexits.h: a temporary failure


class UntrustedEstimateWarning(UserWarning):
    """An estimate was made that its own diagnostics do not support. The message says why and what to do."""


def some_of(names: Sequence[object]) -> str:
    """A short list for a message: ``a, b, c and 12 more``."""
    shown = ", ".join(str(name) for name in names[:MOST_NAMES_SHOWN])
    left = len(names) - MOST_NAMES_SHOWN
    return f"{shown} and {left:,} more" if left > 0 else shown


def reason_of(error: BaseException) -> str:
    """What an error of another library says, in one line."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].strip()
