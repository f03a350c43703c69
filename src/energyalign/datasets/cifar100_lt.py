"""Logits of a ResNet-32 that was trained on CIFAR-100-LT to the end."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

_FILE = "cifar100_lt.npz"


@dataclass(frozen=True, eq=False)
class Logits:
    """What a trained classifier says of evidence and of test samples.

    Attributes
    ----------
    evidence, test : float32 array of shape (n_samples, n_classes)
        Logits. The evidence is balanced and comes from the training samples.
    evidence_labels, test_labels : int64 array of shape (n_samples,)
    counts : int64 array of shape (n_classes,)
        Training samples per class.
    class_names : tuple of str
    """

    evidence: NDArray[np.float32]
    evidence_labels: NDArray[np.int64]
    test: NDArray[np.float32]
    test_labels: NDArray[np.int64]
    counts: NDArray[np.int64]
    class_names: tuple[str, ...]


def load_cifar100_lt() -> Logits:
    """Logits of one real network: ResNet-32 with a cosine head, trained on CIFAR-100-LT (imbalance 100).

    Cross-entropy, 200 epochs, seed 0.

    The evidence is 50 draws of each class from the 10,847 training images, without augmentation (policy ``none``); give
    it to `EnergyAligner` with the default ``evidence="training"``. The test logits are of the 10,000 test images, 100
    of each class. Both were rounded to half precision, which changes the prediction for at most ten test images.

    Notes
    -----
    ``energyalign longtail cifar100 --imbalance 100 --seed 0 --data-root DATA`` trained it at commit b1093d4, and logits
    were measured at commit 78f91a9. ``results/cifar100-lt-100/ce/seed-0`` in the repository has the network and all
    rows; ``results/package.py`` makes the file of this function from it.

    Examples
    --------
    >>> from energyalign import EnergyAligner
    >>> data = load_cifar100_lt()
    >>> aligner = EnergyAligner().fit(data.evidence, data.evidence_labels, counts=data.counts)
    >>> for logits in (data.test, aligner.transform(data.test)):
    ...     print(f"{(logits.argmax(axis=1) == data.test_labels).mean():.1%}")
    40.9%
    45.2%
    """
    with (files(__package__) / _FILE).open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
        return Logits(
            evidence=stored["evidence"].astype(np.float32),
            evidence_labels=stored["evidence_labels"].astype(np.int64),
            test=stored["test"].astype(np.float32),
            test_labels=stored["test_labels"].astype(np.int64),
            counts=stored["counts"].astype(np.int64),
            class_names=tuple(map(str, stored["class_names"])),
        )
