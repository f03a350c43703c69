"""Fixtures of the core's tests: reproducible properties, and a simulated model with a known bias."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from energyalign.core.clusters import Clusters
from energyalign.core.shifts import Shifts

# The same examples in every run, at any speed of the machine.
settings.register_profile("energyalign-core", derandomize=True, deadline=None, database=None, max_examples=60)
settings.load_profile("energyalign-core")

Simulate = Callable[..., tuple[np.ndarray, np.ndarray]]
Guard = Callable[[np.ndarray], Any]


@pytest.fixture(scope="session")
def simulate() -> Simulate:
    """Draw logits and labels from a calibrated model of Gaussian classes that was trained on imbalanced classes.

    Class k is N(separation · e_k, I). The model knows this and the training prior, so its logits are
    log p(x|k) + log prior_k, and the one right correction is -log prior_k.
    """

    def draw(
        counts: np.ndarray | list[float], per_class: int | list[int], *, seed: int, separation: float = 1.5
    ) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        n_classes = len(counts)
        labels = np.repeat(np.arange(n_classes), per_class)
        rng.shuffle(labels)
        features = rng.normal(size=(len(labels), n_classes))
        features[np.arange(len(labels)), labels] += separation
        log_prior = np.log(np.asarray(counts) / np.sum(counts))
        return separation * features - separation**2 / 2 + log_prior, labels

    return draw


@pytest.fixture(scope="session")
def plain_shifts() -> Callable[..., Shifts]:
    """Return per-class shifts with these values, for a uniform target prior."""

    def make(values: np.ndarray | list[float], **others: object) -> Shifts:
        n_classes = len(values)
        fields: dict[str, object] = {
            "standard_errors": np.zeros(n_classes),
            "clusters": Clusters.per_class(n_classes),
            "target_prior": np.full(n_classes, 1 / n_classes),
            "estimator": "lse",
        }
        return Shifts(values=np.asarray(values, dtype=float), **{**fields, **others})

    return make


@pytest.fixture(scope="session")
def guarded() -> Guard:
    """Return a maker of torch tensors that, like all tensors computed from them, refuse conversion to NumPy.

    Vectors (results per sample or class) and matrices of at most classes x classes can be converted.
    """
    import torch

    class Guarded(torch.Tensor):
        def _refuse_whole(self) -> None:
            rows, columns = self.shape if self.ndim == 2 else (0, 1)
            assert columns == 1 or rows <= columns, f"{rows} x {columns} was converted to NumPy"

        def __array__(self, *args: Any, **options: Any) -> np.ndarray:
            self._refuse_whole()
            return super().__array__(*args, **options)

        def numpy(self, **options: Any) -> np.ndarray:
            self._refuse_whole()
            return super().numpy(**options)

    def guard(values: np.ndarray) -> Any:
        tensor = torch.tensor(values).as_subclass(Guarded)
        with pytest.raises(AssertionError, match="was converted"):
            np.asarray(tensor * 1)
        return tensor

    return guard
