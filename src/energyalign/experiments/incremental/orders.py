"""Class orders and subsets.

Public code has two different "orders of seed 1993" and two sets of classes called ImageNet100, whose results are not
comparable. They are written out here, so that they do not depend on the version of NumPy.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence

import numpy as np

from energyalign.core._io.strict_json import read_json_file
from energyalign.core.errors import EnergyAlignError, some_of

ORDERS: dict[str, str] = {
    "natural": "classes by number",
    "seed1993": "NumPy's permutation from seed 1993, as in LUCIR, FACIL and PyCIL",
    "icarl": "the permutation that iCaRL's own script draws from seed 1993, as in PODNet and DER; 100 classes only",
    "seed:N": "NumPy's permutation from a seed of your choice",
    "FILE.json": "a list of class names or numbers",
}
SUBSETS: dict[str, str] = {
    "all": "every class",
    "first100": "the first 100 classes: ImageNet100 of iCaRL and BiC",
    "first:N": "the first N classes",
    "seed1993": "100 of 1,000 classes drawn from seed 1993: ImageNet100 of LUCIR and PyCIL",
}

# fmt: off
SEED1993_CIFAR100: tuple[int, ...] = (
    68, 56, 78, 8, 23, 84, 90, 65, 74, 76, 40, 89, 3, 92, 55, 9, 26, 80, 43, 38, 58, 70, 77, 1, 85, 19, 17, 50, 28,
    53, 13, 81, 45, 82, 6, 59, 83, 16, 15, 44, 91, 41, 72, 60, 79, 52, 20, 10, 31, 54, 37, 95, 14, 71, 96, 98, 97,
    2, 64, 66, 42, 22, 35, 86, 24, 34, 87, 21, 99, 0, 88, 27, 18, 94, 11, 12, 47, 25, 30, 46, 62, 69, 36, 61, 7, 63,
    75, 5, 32, 4, 51, 48, 73, 93, 39, 67, 29, 49, 57, 33,
)

# The same seed, after the original's data loader has shuffled the 500 images of each of the 100 classes.
ICARL_CIFAR100: tuple[int, ...] = (
    87, 0, 52, 58, 44, 91, 68, 97, 51, 15, 94, 92, 10, 72, 49, 78, 61, 14, 8, 86, 84, 96, 18, 24, 32, 45, 88, 11, 4,
    67, 69, 66, 77, 47, 79, 93, 29, 50, 57, 83, 17, 81, 41, 12, 37, 59, 25, 20, 80, 73, 1, 28, 6, 46, 62, 82, 53, 9,
    31, 75, 38, 63, 33, 74, 27, 22, 36, 3, 16, 21, 60, 19, 70, 90, 89, 43, 5, 42, 65, 76, 40, 30, 23, 85, 2, 95, 56,
    48, 71, 64, 98, 13, 99, 7, 34, 55, 54, 26, 35, 39,
)

# ImageNet100, in the order drawn by NumPy's RandomState(1993) from the 1,000 classes sorted by their WordNet id.
IMAGENET100_SEED1993: tuple[int, ...] = (
    54, 7, 894, 512, 126, 337, 988, 11, 284, 493, 133, 783, 192, 979, 622, 215, 240, 548, 238, 419, 274, 108, 928,
    856, 494, 836, 473, 650, 85, 262, 508, 590, 390, 174, 637, 288, 658, 219, 912, 142, 852, 160, 704, 289, 123,
    323, 600, 542, 999, 634, 391, 761, 490, 842, 127, 850, 665, 990, 597, 722, 748, 14, 77, 437, 394, 859, 279, 539,
    75, 466, 886, 312, 303, 62, 966, 413, 959, 782, 509, 400, 471, 632, 275, 730, 105, 523, 224, 186, 478, 507, 470,
    906, 699, 989, 324, 812, 260, 911, 446, 44,
)
# fmt: on

_FIRST = re.compile(r"first:(-?[0-9]{1,9})")
_SEED = re.compile(r"seed:([0-9]{1,10})")
_LISTED = "list:"
_MAX_SEED = 2**32 - 1  # of RandomState


def subset_classes(name: str, n_classes: int) -> tuple[int, ...]:
    """Return the numbers of the classes that take part, in increasing order.

    Orders (`class_order`) apply to positions in this tuple, because the loaders of the publications sort the chosen
    classes again.

    Parameters
    ----------
    name : str
        One of `SUBSETS`.
    n_classes : int
        Number of classes of the data set.

    Examples
    --------
    >>> subset_classes("first:3", 10)
    (0, 1, 2)
    >>> subset_classes("seed1993", 1000)[:3]
    (7, 11, 14)
    """
    if name == "all":
        return tuple(range(n_classes))
    if name == "seed1993":
        if n_classes != 1000:
            raise EnergyAlignError(
                f"the subset 'seed1993' is drawn from 1,000 classes, and this data set has {n_classes}: choose all or "
                "first:N."
            )
        return tuple(sorted(IMAGENET100_SEED1993))
    first = _FIRST.fullmatch("first:100" if name == "first100" else name)
    if first is None:
        raise EnergyAlignError(f"unknown subset {name!r}: choose one of {', '.join(SUBSETS)}.")
    n_first = int(first[1])
    if not 2 <= n_first <= n_classes:
        raise EnergyAlignError(
            f"the subset {name!r} asks for {n_first} classes of a data set of {n_classes}: choose first:N with N "
            f"between 2 and {n_classes}."
        )
    return tuple(range(n_first))


def read_order(name: str) -> str:
    """Return an order as configs store it: its name, or the content of a file."""
    if not name.endswith(".json"):
        return name
    try:
        entries = read_json_file(name)
    except (OSError, ValueError) as error:
        raise EnergyAlignError(f"cannot read the class order of {name}: {error}. Check the file.") from error
    if not (isinstance(entries, list) and all(isinstance(entry, (str, int)) for entry in entries)):
        raise EnergyAlignError(f"{name} must hold a JSON list of class names or numbers.")
    return _LISTED + json.dumps(entries)


def class_order(name: str, n_classes: int, class_names: Sequence[str] = ()) -> tuple[int, ...]:
    """Return the classes in their order of arrival.

    Parameters
    ----------
    name : str
        One of `ORDERS`, or the result of `read_order`.
    n_classes : int
    class_names : sequence of str, default ()
        For orders that contain names.

    Examples
    --------
    >>> class_order("seed1993", 100)[:3], class_order("icarl", 100)[:3]
    ((68, 56, 78), (87, 0, 52))
    """
    if name.startswith(_LISTED):
        return _listed_order(json.loads(name.removeprefix(_LISTED)), n_classes, class_names)
    if name == "natural":
        return tuple(range(n_classes))
    if name == "seed1993":
        return SEED1993_CIFAR100 if n_classes == len(SEED1993_CIFAR100) else _permutation(1993, n_classes)
    if name == "icarl":
        if n_classes != len(ICARL_CIFAR100):
            raise EnergyAlignError(
                f"the class order 'icarl' exists for {len(ICARL_CIFAR100)} classes only, not for {n_classes}: choose "
                "seed1993, natural or seed:N."
            )
        return ICARL_CIFAR100
    seed = _SEED.fullmatch(name)
    if seed is None:
        raise EnergyAlignError(f"unknown class order {name!r}: choose one of {', '.join(ORDERS)}.")
    if int(seed[1]) > _MAX_SEED:
        raise EnergyAlignError(f"the seed of the class order {name!r} must be <= {_MAX_SEED}.")
    return _permutation(int(seed[1]), n_classes)


def order_hash(order: Sequence[int]) -> str:
    """Return the SHA-256 of the numbers joined by commas; results are comparable if it is equal."""
    return hashlib.sha256(",".join(map(str, order)).encode()).hexdigest()


def _listed_order(entries: Sequence[str | int], n_classes: int, class_names: Sequence[str]) -> tuple[int, ...]:
    number: dict[str | int, int] = {name: k for k, name in enumerate(class_names)} | {k: k for k in range(n_classes)}
    unknown = [entry for entry in entries if entry not in number]
    order = tuple(number[entry] for entry in entries if entry in number)
    if unknown or sorted(order) != list(range(n_classes)):
        wrong = f"unknown classes are {some_of(unknown)}" if unknown else f"it has {len(order)} entries"
        raise EnergyAlignError(f"the class order must name each of the {n_classes} classes once: {wrong}.")
    return order


def _permutation(seed: int, n_classes: int) -> tuple[int, ...]:
    # The published orders come from this legacy generator, whose numbers NumPy guarantees never to change.
    return tuple(np.random.RandomState(seed).permutation(n_classes).tolist())
