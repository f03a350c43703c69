"""Which classes of a dataset take part: two sets of classes go by the name of ImageNet100."""

from __future__ import annotations

import re

from energyalign.core.errors import EnergyAlignError

SUBSETS: dict[str, str] = {
    "all": "every class",
    "first100": "the first 100 classes: ImageNet100 of iCaRL and BiC",
    "first:N": "the first N classes",
    "seed1993": "100 of 1,000 classes drawn from seed 1993: ImageNet100 of LUCIR and PyCIL",
}

# In the order drawn by NumPy's RandomState(1993) from the 1,000 classes sorted by their WordNet id.
# fmt: off
IMAGENET100_SEED1993: tuple[int, ...] = (
    54, 7, 894, 512, 126, 337, 988, 11, 284, 493, 133, 783, 192, 979, 622, 215, 240, 548, 238, 419, 274, 108, 928,
    856, 494, 836, 473, 650, 85, 262, 508, 590, 390, 174, 637, 288, 658, 219, 912, 142, 852, 160, 704, 289, 123,
    323, 600, 542, 999, 634, 391, 761, 490, 842, 127, 850, 665, 990, 597, 722, 748, 14, 77, 437, 394, 859, 279, 539,
    75, 466, 886, 312, 303, 62, 966, 413, 959, 782, 509, 400, 471, 632, 275, 730, 105, 523, 224, 186, 478, 507, 470,
    906, 699, 989, 324, 812, 260, 911, 446, 44,
)
# fmt: on

_FIRST = re.compile(r"first:(-?[0-9]{1,9})")


def subset_classes(name: str, n_classes: int) -> tuple[int, ...]:
    """The numbers of the classes that take part, in increasing order.

    The order in which they arrive is another matter: the publications apply theirs (`orders`) to the positions in
    this tuple, because their loaders sort the chosen classes anew.

    Parameters
    ----------
    name : str
        One of `SUBSETS`.
    n_classes : int
        How many classes the dataset has.

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
                f"the subset 'seed1993' is drawn from 1,000 classes, and this dataset has {n_classes}: "
                "choose all or first:N."
            )
        return tuple(sorted(IMAGENET100_SEED1993))
    first = _FIRST.fullmatch("first:100" if name == "first100" else name)
    if first is None:
        raise EnergyAlignError(f"unknown subset {name!r}: choose one of {', '.join(SUBSETS)}.")
    n_first = int(first[1])
    if not 2 <= n_first <= n_classes:
        raise EnergyAlignError(
            f"the subset {name!r} asks for {n_first} classes of a dataset of {n_classes}: "
            f"choose first:N with N between 2 and {n_classes}."
        )
    return tuple(range(n_first))
