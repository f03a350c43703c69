"""Logits of a ResNet-32 trained on CIFAR-100-LT."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Logits:
    """Logits of a trained classifier on evidence and on test samples.

    Attributes
    ----------
    evidence, test : float32 array of shape (n_samples, n_classes)
        Logits. The evidence is class-balanced and drawn from the training samples.
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
    """Load logits of a ResNet-32 with a cosine head, trained on CIFAR-100-LT (imbalance 100).

    The network was trained with cross-entropy for 200 epochs, seed 0. The evidence has 50 draws per class from the
    10,847 training images, without augmentation (policy ``none``); use it with the default ``evidence="training"`` of
    `EnergyAligner`. The test logits are of the 10,000 test images, 100 per class. Both are rounded to half precision,
    which changes the predictions of at most ten test images.

    Returns
    -------
    Logits

    Notes
    -----
    Trained with ``energyalign longtail cifar100 --imbalance 100 --seed 0 --data-root DATA`` at commit b1093d4; logits
    measured at commit 78f91a9. The network and all rows are in ``results/cifar100-lt-100/ce/seed-0`` of the repository,
    and ``results/package.py`` makes the data file from them.

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
    path = files(__package__) / "cifar100_lt.npz"
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
        return Logits(
            evidence=stored["evidence"].astype(np.float32),
            evidence_labels=stored["evidence_labels"].astype(np.int64),
            test=stored["test"].astype(np.float32),
            test_labels=stored["test_labels"].astype(np.int64),
            counts=stored["counts"].astype(np.int64),
            class_names=tuple(map(str, stored["class_names"])),
        )
