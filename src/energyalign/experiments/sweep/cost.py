"""What a run of a table costs, as far as that can be told without timing anything."""

from __future__ import annotations

from collections.abc import Iterable

# A guess by counting passes through the network: a forward pass is 1, a backward pass 2, and plain training is 3.
# What a training costs beside the plain one of its cell; those that are not named cost as much.
_LONG_TAIL_LEARNERS = {
    "bbn": 2.0,  # two batches in every step
    "oltr-stage-1": 1 / 3,  # of the epochs
}
_LONG_TAIL_CORRECTORS = {
    "oltr": 2 / 3,  # the other two thirds, of the whole network
    "crt": 1 / 9,  # a third of the epochs; the backbone goes forward only
    "lws": 1 / 9,
}
# The hours of an incremental cell are for distillation: a step of 3 for the student and 1 for the teacher.
_INCREMENTAL_LEARNERS = {
    "fine-tune": 3 / 4,
    "eeil": 1.2,  # a short stage on few images behind each step
    "rps": 1.7,  # candidates for a tenth of the epochs each
}


def long_tail_hours(hours: float, learner: str, correctors: Iterable[str]) -> float:
    """Of a training and what follows it; `hours` are those of plain training in the cell."""
    second_stages = sum(_LONG_TAIL_CORRECTORS.get(corrector, 0.0) for corrector in correctors)
    return hours * (_LONG_TAIL_LEARNERS.get(learner, 1.0) + second_stages)


def incremental_hours(hours: float, learner: str, n_steps: int) -> float:
    """Of all steps; `hours` are those of distillation in the cell."""
    if learner == "joint":  # step b of B trains on b / B of the images
        return hours * 3 / 4 * (n_steps + 1) / 2
    return hours * _INCREMENTAL_LEARNERS.get(learner, 1.0)
