"""Numbers as cells of a table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def mean_and_deviation(values: Sequence[float | None]) -> str:
    """In per cent, as a cell of a table: ``45.3 ± 0.4``, ``45.3`` if there is one, ``-`` if there is none.

    None and NaN are missing: an average over no steps, the accuracy of old classes where all are new.
    """
    known = [100.0 * value for value in values if value is not None and not math.isnan(value)]
    if not known:
        return "-"
    if len(known) == 1:
        return f"{known[0]:.1f}"
    return f"{statistics.mean(known):.1f} ± {statistics.stdev(known):.1f}"
