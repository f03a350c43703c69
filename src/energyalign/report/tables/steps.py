"""Steps as columns of a table."""

from __future__ import annotations

MAX_BESIDE = 10
"""More steps than these stand below each other, as in the paper."""


def step_group(step: int, n_steps: int) -> str:
    """``steps 11 to 20`` for one of them; nothing if all steps are beside each other."""
    if n_steps <= MAX_BESIDE:
        return ""
    first = (step - 1) // MAX_BESIDE * MAX_BESIDE + 1
    return f"steps {first} to {min(first + MAX_BESIDE - 1, n_steps)}"
