"""What is written down of a step while its images are at hand, for correctors of later steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import logsumexp

from energyalign.core.arrays import Floats, Ints
from energyalign.experiments.nets.network import Network

_ROWS = 4096


@dataclass(frozen=True, eq=False)
class StepRecord:
    """Of the classes that were new in a step, under the network at its end.

    Attributes
    ----------
    weight : array of shape (n_new, n_features)
        Their rows of the head.
    bias : array of shape (n_new,)
        Zero if the head has none.
    mean_score, mean_probability : arrays of shape (n_new,)
        Logit and softmax output of a class, averaged over its training images.
    confidence, confidence_probability : floats
        The largest logit and the largest softmax output of an image, averaged over all images of these classes.
    """

    weight: Floats
    bias: Floats
    mean_score: Floats
    mean_probability: Floats
    confidence: float
    confidence_probability: float

    @classmethod
    def of(cls, network: Network, logits: npt.NDArray[np.float32], labels: Ints, n_old: int) -> Self:
        """From the logits of the training images of the new classes."""
        head = network.head
        n_new = head.out_features - n_old
        bias = torch.zeros(head.out_features) if head.bias is None else head.bias.detach().cpu()
        own, largest, total = (np.empty(len(labels)) for _ in range(3))
        for first in range(0, len(labels), _ROWS):  # of 100,000 images and 1,000 classes doubles would be a gigabyte
            rows = slice(first, first + _ROWS)
            scores = logits[rows].astype(np.float64)
            own[rows] = scores[np.arange(len(scores)), labels[rows]]
            largest[rows], total[rows] = scores.max(axis=1), logsumexp(scores, axis=1)
        number = np.bincount(labels - n_old, minlength=n_new)
        return cls(
            head.weight.detach().cpu().double().numpy()[n_old:],
            bias.double().numpy()[n_old:],
            np.bincount(labels - n_old, own, minlength=n_new) / number,
            np.bincount(labels - n_old, np.exp(own - total), minlength=n_new) / number,
            float(largest.mean()),
            float(np.exp(largest - total).mean()),
        )

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """For a file."""
        return {item.name: np.atleast_1d(np.asarray(getattr(self, item.name))) for item in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """What `arrays` gave."""
        numbers = ("confidence", "confidence_probability")
        values: dict[str, Any] = {name: float(array[0]) if name in numbers else array for name, array in arrays.items()}
        return cls(**values)
