"""Cutting a training set to a long tail as LDAM and BBN do: how many images each class keeps, and which."""

from __future__ import annotations

import math
import numbers
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError, count_of, some_of
from energyalign.experiments.data.manifest import Manifest, labels_digest

if TYPE_CHECKING:
    from energyalign.experiments.data.images import ImageSet

PARETO_SHAPE = 6.0


def exponential(n_max: int, n_classes: int, imbalance: float) -> Ints:
    """n_k = int(n_max * (1 / imbalance)^(k / (C - 1))), from n_max for class 0 down to n_max / imbalance.

    The profile of Cui et al. 2019, LDAM (Cao et al. 2019) and BBN (Zhou et al. 2020), evaluated in the same order
    of operations, so that the truncation to whole numbers agrees too.
    """
    return np.array([int(n_max * (1 / imbalance) ** (k / (n_classes - 1.0))) for k in range(n_classes)])


def step(n_max: int, n_classes: int, imbalance: float) -> Ints:
    """n_max for the first half of the classes, int(n_max / imbalance) for the others (LDAM)."""
    return np.array([n_max if k < n_classes // 2 else int(n_max * (1 / imbalance)) for k in range(n_classes)])


def pareto(n_max: int, n_classes: int, imbalance: float) -> Ints:
    """Evenly spaced quantiles of a Pareto (Lomax) distribution of shape 6, scaled to the two ends.

    With g_k = ((k + 1/2) / C)^(-1/6) - 1 and n_min = n_max / imbalance,
    n_k = round(n_min + (n_max - n_min) * (g_k - g_{C-1}) / (g_0 - g_{C-1})).

    ImageNet-LT (Liu et al. 2019) was drawn at random from a Pareto distribution of shape 6; this is the shape
    without the chance. For 1,000 classes from 1,280 down to 5 images its median is 66, that of ImageNet-LT 73.
    """
    tail = ((np.arange(n_classes) + 0.5) / n_classes) ** (-1 / PARETO_SHAPE) - 1
    n_min = n_max / imbalance
    counts: Ints = np.rint(n_min + (n_max - n_min) * (tail - tail[-1]) / (tail[0] - tail[-1])).astype(np.int64)
    return counts


PROFILES: dict[str, Callable[[int, int, float], Ints]] = {"exponential": exponential, "step": step, "pareto": pareto}


def profile_counts(profile: str, n_max: int, n_classes: int, imbalance: float) -> Ints:
    """Training images per class: `n_max` of class 0, the largest, down to about `n_max / imbalance`."""
    if profile not in PROFILES:
        raise EnergyAlignError(f"unknown profile {profile!r}: choose {', '.join(PROFILES)}.")
    if n_max < 1:
        raise EnergyAlignError(f"the largest class is to have {n_max} images (n_max); give it at least 1.")
    if n_classes < 2:
        raise EnergyAlignError(f"a long tail needs at least 2 classes, not {n_classes}.")
    if not imbalance >= 1:
        raise EnergyAlignError(
            f"the imbalance is {imbalance}: it is the largest class over the smallest, so 1 (balanced) or more."
        )
    counts = PROFILES[profile](n_max, n_classes, imbalance)
    if counts.min() < 1:
        raise EnergyAlignError(
            f"with {n_max} images in the largest class and imbalance {imbalance:g}, {np.sum(counts < 1)} classes would "
            f"have no image left: choose an imbalance of at most {n_max}."
        )
    return counts


def _is_count(value: object) -> bool:
    """Whether it is a whole number of 1 or more, and one that an array can hold; it may come from a file."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or not math.isfinite(value):
        return False
    number: Any = value
    return bool(1 <= number < 2**63 and int(number) == number)


def given_counts(counts: Mapping[str, int] | Mapping[int, int], class_names: Sequence[str]) -> Ints:
    """Counts from a dict, by class name or by class number; every class must be in it."""
    numbers: dict[object, int] = {name: k for k, name in enumerate(class_names)}
    numbers.update({k: k for k in range(len(class_names))})
    unknown = [key for key in counts if key not in numbers]
    if unknown:
        raise EnergyAlignError(f"the counts name classes that do not exist: {some_of(unknown)}.")
    result = np.zeros(len(class_names), dtype=np.int64)
    for key, count in counts.items():
        if not _is_count(count):
            raise EnergyAlignError(
                f"the count of class {key!r} is {reprlib.repr(count)}; it must be a whole number of 1 or more."
            )
        result[numbers[key]] = count
    left_out = [name for name, count in zip(class_names, result, strict=True) if count == 0]
    if left_out:
        raise EnergyAlignError(f"the counts leave out these classes: {some_of(left_out)}. Give every class a count.")
    return result


def long_tail_indices(labels: Ints, counts: Ints, seed: int = 0) -> Ints:
    """Which images are kept: class by class, the first `counts[k]` of a shuffled list of all images of class k.

    With the stream of ``numpy.random.seed(seed)`` this is the selection of LDAM and BBN, whose seed is 0, provided
    that the images come in the order of the official files. One stream serves all classes and every list is
    shuffled whole, so a smaller count keeps a part of what a larger count keeps: the subsets of one seed are nested.

    They come class 0 first, and within a class in shuffled order.
    """
    if not 0 <= seed < 2**32:
        raise EnergyAlignError(f"the seed of the cut is {seed}; it must be one of 0..{2**32 - 1}.")
    stream = np.random.RandomState(seed)  # the generator behind numpy.random.seed, without the global state
    chosen = []
    for k, count in enumerate(counts):
        members = np.flatnonzero(labels == k)
        if len(members) < count:
            raise EnergyAlignError(
                f"class {k} has {count_of(len(members), 'image')}, but {count} are asked for: "
                "choose a smaller largest class (n_max), or other counts."
            )
        stream.shuffle(members)
        chosen.append(members[:count])
    return np.concatenate(chosen)


def cut_long_tail(
    train: ImageSet, *, dataset: str | None = None,
    profile: str | Mapping[str, int] | Mapping[int, int] = "exponential", imbalance: float = 100.0,
    n_max: int | None = None, seed: int = 0, test: ImageSet | None = None,
) -> Manifest:  # fmt: skip
    """The manifest of a long-tailed part of a training set; `Manifest.select` then gives the images.

    Parameters
    ----------
    dataset : str, optional
        What the manifest calls it; the name of `train` unless given.
    profile : str or dict
        A name of `PROFILES`; ``"natural"`` to keep every image; or counts, by class name or class number.
    imbalance : float
        Largest class over smallest; for the named profiles.
    n_max : int, optional
        Images of the largest class. Unless given, as many as every class has: 5,000 for CIFAR-10, 500 for CIFAR-100.
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
