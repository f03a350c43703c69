"""Random numbers as a function of what they are for: no state that a restart could lose."""

from __future__ import annotations

import numpy as np

from energyalign.core.errors import EnergyAlignError

# One stream for each purpose: the order of an epoch tells nothing of its augmentation.
ORDER, AUGMENTATION = range(2)


def generator(seed: int, purpose: int, *key: int) -> np.random.Generator:
    """The generator of `seed` for one purpose, epoch, batch, ...; the same arguments give the same numbers."""
    return np.random.default_rng(_sequence(seed, purpose, *key))


def torch_seed(seed: int, purpose: int, *key: int) -> int:
    """A seed for a torch generator, as independent of all others as `generator` is."""
    # 32 bits, because torch's generator for the CPU uses no more of a seed.
    return int(_sequence(seed, purpose, *key).generate_state(1, np.uint32)[0])


def _sequence(seed: int, purpose: int, *key: int) -> np.random.SeedSequence:
    if seed < 0:
        raise EnergyAlignError(f"the seed is {seed}; it must be 0 or more.")
    # As a spawn key and not as entropy: in a list of entropy, trailing zeros make no difference.
    return np.random.SeedSequence(seed, spawn_key=(purpose, *key))
