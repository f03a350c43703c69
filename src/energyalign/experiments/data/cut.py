"""Cutting a training set to a long tail, exactly as LDAM and BBN do it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError, some_of
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.data.manifest import Manifest, labels_digest
from energyalign.experiments.data.profiles import given_counts, profile_counts


def long_tail_indices(labels: Ints, counts: Ints, seed: int = 0) -> Ints:
    """Which images are kept: class by class, the first `counts[k]` of a shuffled list of all images of class k.

    With the stream of ``numpy.random.seed(seed)`` this is the selection of LDAM and BBN, whose seed is 0, provided
    that the images come in the order of the official files. One stream serves all classes and every list is
    shuffled whole, so a smaller count keeps a part of what a larger count keeps: the subsets of one seed are nested.

    Parameters
    ----------
    labels : array of shape (n_images,)
    counts : array of shape (n_classes,)
    seed : int

    Returns
    -------
    array
        Class 0 first, and within a class in shuffled order.
    """
    if not 0 <= seed < 2**32:
        raise EnergyAlignError(f"the seed of the cut is {seed}; it must be one of 0..{2**32 - 1}.")
    stream = np.random.RandomState(seed)  # the generator behind numpy.random.seed, without the global state
    chosen = []
    for k, count in enumerate(counts):
        members = np.flatnonzero(labels == k)
        if len(members) < count:
            raise EnergyAlignError(
                f"class {k} has {len(members)} images, but {count} are asked for: "
                "choose a smaller largest class (n_max), or other counts."
            )
        stream.shuffle(members)
        chosen.append(members[:count])
    return np.concatenate(chosen)


def cut_long_tail(
    train: ImageSet,
    *,
    dataset: str | None = None,
    profile: str | Mapping[str, int] | Mapping[int, int] = "exponential",
    imbalance: float = 100.0,
    n_max: int | None = None,
    seed: int = 0,
    test: ImageSet | None = None,
) -> Manifest:
    """The manifest of a long-tailed part of a training set; `Manifest.select` then gives the images.

    Parameters
    ----------
    train : ImageSet
    dataset : str, optional
        What the manifest calls it; the name of `train` unless given.
    profile : str or dict
        A name of `PROFILES`; ``"natural"`` to keep every image; or counts, by class name or class number.
    imbalance : float
        Largest class over smallest; for the named profiles.
    n_max : int, optional
        Images of the largest class. Unless given, as many as every class has: 5,000 for CIFAR-10, 500 for CIFAR-100.
    seed : int
    test : ImageSet, optional
        Also for the record: what the run will be measured on.
    """
    available = np.bincount(train.labels, minlength=train.n_classes)
    if available.min() == 0:
        empty = [name for name, count in zip(train.class_names, available, strict=True) if count == 0]
        raise EnergyAlignError(f"{train.name} has no images of these classes: {some_of(empty)}. Leave them out.")
    if profile == "natural":
        name, counts, indices = "natural", available, np.arange(len(train))
    elif isinstance(profile, str):
        largest = int(available.min()) if n_max is None else n_max
        name, counts = profile, profile_counts(profile, largest, train.n_classes, imbalance)
        indices = long_tail_indices(train.labels, counts, seed)
    else:
        name, counts = "counts", given_counts(profile, train.class_names)
        indices = long_tail_indices(train.labels, counts, seed)
    return Manifest(
        dataset=train.name if dataset is None else dataset,
        sizes={"train": len(train)} | ({} if test is None else {"test": len(test)}),
        profile=name,
        imbalance=float(counts.max() / counts.min()) if name in ("natural", "counts") else float(imbalance),
        seed=seed,
        class_names=train.class_names,
        counts=tuple(int(count) for count in counts),
        labels_sha256=labels_digest(train.labels),
        images_sha256=train.subset(indices).digest(),
        test_sha256="" if test is None else f"{test.digest()}-{labels_digest(test.labels)}",
        indices=indices,
    )
