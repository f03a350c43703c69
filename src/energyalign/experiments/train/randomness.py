"""Randomness without state: every number is a function of the seed and of where it is used.

A run that is resumed needs no stored generator: batch 17 of epoch 3 is the same whatever came before it.
"""

from __future__ import annotations

import hashlib


def derived_seed(seed: int, *where: str | int) -> int:
    """A seed of 63 bits for this place, unrelated to those of other places and other seeds."""
    text = "/".join(str(part) for part in (seed, *where))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def seed_torch(seed: int, *where: str | int) -> None:
    """Seed torch's global generators, as dropout and random initialisation use them."""
    import torch  # a plan of runs derives seeds without it

    number = derived_seed(seed, *where)
    # `torch.manual_seed` captures a traceback for devices that are not there, which costs more than a small batch.
    torch.random.default_generator.manual_seed(number)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(number)
