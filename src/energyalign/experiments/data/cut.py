"""Cut a training set to a long tail as LDAM and BBN do: how many images each class keeps, and which."""

from __future__ import annotations

import math
import numbers
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from energyalign.core.arrays import Bools, Ints
from energyalign.core.errors import EnergyAlignError, count_of, some_of
from energyalign.experiments.data.manifest import Manifest, labels_digest

if TYPE_CHECKING:
    from energyalign.experiments.data.images import ImageSet

PARETO_SHAPE = 6.0


def exponential(n_max: int, n_classes: int, imbalance: float) -> Ints:
    """Return n_k = int(n_max * (1 / imbalance)^(k / (C - 1))), from n_max for class 0 down to n_max / imbalance.

    The profile of Cui et al. 2019, LDAM (Cao et al. 2019) and BBN (Zhou et al. 2020), computed in the same order of
    operations, so that rounding agrees too.
    """
    return np.array([int(n_max * (1 / imbalance) ** (k / (n_classes - 1.0))) for k in range(n_classes)])


def step(n_max: int, n_classes: int, imbalance: float) -> Ints:
    """Return n_max for the first half of the classes, int(n_max / imbalance) for the others (LDAM)."""
    return np.array([n_max if k < n_classes // 2 else int(n_max * (1 / imbalance)) for k in range(n_classes)])


def pareto(n_max: int, n_classes: int, imbalance: float) -> Ints:
    """Return evenly spaced quantiles of a Pareto (Lomax) distribution of shape 6, scaled to the two ends.

    With g_k = ((k + 1/2) / C)^(-1/6) - 1 and n_min = n_max / imbalance,
    n_k = round(n_min + (n_max - n_min) * (g_k - g_{C-1}) / (g_0 - g_{C-1})).

    ImageNet-LT (Liu et al. 2019) was drawn at random from a Pareto distribution of shape 6; these counts are its
    quantiles instead. For 1,000 classes from 1,280 down to 5 images their median is 66; in ImageNet-LT it is 73.
    """
    tail = ((np.arange(n_classes) + 0.5) / n_classes) ** (-1 / PARETO_SHAPE) - 1
    n_min = n_max / imbalance
    counts: Ints = np.rint(n_min + (n_max - n_min) * (tail - tail[-1]) / (tail[0] - tail[-1])).astype(np.int64)
    return counts


PROFILES: dict[str, Callable[[int, int, float], Ints]] = {"exponential": exponential, "step": step, "pareto": pareto}


def profile_counts(profile: str, n_max: int, n_classes: int, imbalance: float) -> Ints:
    """Return the training counts of a profile: `n_max` for class 0, the largest, down to about `n_max / imbalance`."""
    if profile not in PROFILES:
        raise EnergyAlignError(f"unknown profile {profile!r}: choose one of {', '.join(PROFILES)}.")
    if n_max < 1:
        raise EnergyAlignError(f"n_max, the size of the largest class, must be >= 1, got {n_max}.")
    if n_classes < 2:
        raise EnergyAlignError(f"a long tail needs at least 2 classes, got {n_classes}.")
    if not imbalance >= 1:
        raise EnergyAlignError(f"the imbalance, largest over smallest class, must be >= 1, got {imbalance}.")
    counts = PROFILES[profile](n_max, n_classes, imbalance)
    if counts.min() < 1:
        raise EnergyAlignError(
            f"with {n_max} images in the largest class and imbalance {imbalance:g}, {np.sum(counts < 1)} classes would "
            f"have no image left: choose an imbalance of at most {n_max}."
        )
    return counts


def _is_count(value: object) -> bool:
    """Return whether a value, possibly from a file, is a whole number >= 1 that fits into an int64."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or not math.isfinite(value):
        return False
    number: Any = value
    return bool(1 <= number < 2**63 and int(number) == number)


def given_counts(counts: Mapping[str, int] | Mapping[int, int], class_names: Sequence[str]) -> Ints:
    """Return the counts of a dict by class name or number, which must have every class."""
    numbers: dict[object, int] = {name: k for k, name in enumerate(class_names)}
    numbers.update({k: k for k in range(len(class_names))})
    unknown = [key for key in counts if key not in numbers]
    if unknown:
        raise EnergyAlignError(f"the counts name classes that do not exist: {some_of(unknown)}.")
    result = np.zeros(len(class_names), dtype=np.int64)
    for key, count in counts.items():
        if not _is_count(count):
            raise EnergyAlignError(
                f"the count of class {key!r} must be a whole number >= 1, got {reprlib.repr(count)}."
            )
        result[numbers[key]] = count
    left_out = [name for name, count in zip(class_names, result, strict=True) if count == 0]
    if left_out:
        raise EnergyAlignError(f"every class needs a count; missing: {some_of(left_out)}.")
    return result


def long_tail_indices(labels: Ints, counts: Ints, seed: int = 0) -> Ints:
    """Choose the images to keep: for each class k the first `counts[k]` of its images, shuffled.

    With the stream of ``numpy.random.seed(seed)`` this is the selection of LDAM and BBN, whose seed is 0, if the images
    are in the order of the official files. One stream serves all classes, and every class is shuffled as a whole, so
    the subsets of one seed are nested: a smaller count keeps a subset of the images that a larger one keeps.

    The result has class 0 first, and each class in shuffled order.
    """
    if not 0 <= seed < 2**32:
        raise EnergyAlignError(f"the seed of the subset must be in 0..{2**32 - 1}, got {seed}.")
    stream = np.random.RandomState(seed)  # the generator behind numpy.random.seed, without the global state
    chosen = []
    for k, count in enumerate(counts):
        members = np.flatnonzero(labels == k)
        if len(members) < count:
            raise EnergyAlignError(
                f"class {k} has {count_of(len(members), 'image')}, but needs {count}: choose a smaller n_max, or other "
                "counts."
            )
        stream.shuffle(members)
        chosen.append(members[:count])
    return np.concatenate(chosen)


def choose_of_each_class(labels: Ints, share: float, rng: np.random.Generator) -> Bools:
    """Mark a random share of each class, at least one sample, but never all of them."""
    chosen = np.zeros(len(labels), dtype=bool)
    for k in range(int(labels.max()) + 1):
        members = rng.permutation(np.flatnonzero(labels == k))
        chosen[members[: min(max(1, round(len(members) * share)), max(0, len(members) - 1))]] = True
    return chosen


def cut_long_tail(
    train: ImageSet, *, dataset: str | None = None,
    profile: str | Mapping[str, int] | Mapping[int, int] = "exponential", imbalance: float = 100.0,
    n_max: int | None = None, seed: int = 0, test: ImageSet | None = None,
) -> Manifest:  # fmt: skip
    """Return the manifest of a long-tailed part of a training set; `Manifest.select` returns its images.

    Parameters
    ----------
    train : ImageSet
    dataset : str, default None
        Name of the data set in the manifest; None for the name of `train`.
    profile : str or dict, default "exponential"
        A name of `PROFILES`; ``"natural"`` to keep every image; or counts, by class name or class number.
    imbalance : float, default 100
        Largest class over smallest, for the named profiles.
    n_max : int, default None
        Images of the largest class; None for as many as the smallest class of `train` has (500 for CIFAR-100).
    seed : int, default 0
        Seed of the selection.
    test : ImageSet, default None
        The test images, whose hash is recorded too.
    """
    available = np.bincount(train.labels, minlength=train.n_classes)
    if available.min() == 0:
        empty = [name for name, count in zip(train.class_names, available, strict=True) if count == 0]
        raise EnergyAlignError(f"{train.name} has no {train.unit}s of some classes: {some_of(empty)}. Leave them out.")
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
