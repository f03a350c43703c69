"""Fixtures of the scikit-learn tests: overlapping classes of very different sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

Problem = tuple[np.ndarray, np.ndarray]

CENTRES = np.array([[0.0, 0.0], [1.6, 0.0], [0.8, 1.4], [-1.0, 1.0]])


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """Use one thread: small problems run faster, and pytest-xdist's workers share the cores."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="session")
def blobs() -> Callable[..., Problem]:
    """Draw shuffled samples of normal distributions of unit width in four dimensions, with these numbers per class."""

    def make(counts: Sequence[int], seed: int = 0) -> Problem:
        rng = np.random.default_rng(seed)
        labels = rng.permutation(np.repeat(np.arange(len(counts)), counts))
        points = rng.normal(size=(len(labels), 4))
        points[:, :2] += CENTRES[labels]
        return points, labels

    return make


@pytest.fixture(scope="session")
def long_tail(blobs: Callable[..., Problem]) -> Problem:
    """Return training data: 400, 80 and 20 samples of three classes."""
    return blobs([400, 80, 20], seed=0)


@pytest.fixture(scope="session")
def balanced(blobs: Callable[..., Problem]) -> Problem:
    """Return test data of the same three classes, 1,000 samples each."""
    return blobs([1000, 1000, 1000], seed=1)
