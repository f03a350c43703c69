"""Randomness without state: every random number is a function of the seed and of where it is used.

A resumed run needs no stored generator: batch 17 of epoch 3 is the same whatever came before it.
"""

from __future__ import annotations

import hashlib


def derived_seed(seed: int, *where: str | int) -> int:
    """Derive a 63-bit seed for one use, independent of other uses and other seeds."""
    text = "/".join(str(part) for part in (seed, *where))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def seed_torch(seed: int, *where: str | int) -> None:
    """Seed torch's global generators, which dropout and random initialisation use."""
    import torch  # here, because planning runs derives seeds without torch

    number = derived_seed(seed, *where)
    # `torch.manual_seed` captures a traceback for missing devices, which costs more than a small batch.
    torch.random.default_generator.manual_seed(number)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(number)
