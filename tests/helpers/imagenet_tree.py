"""A tiny ImageNet on disk, in the layouts of the real one."""

from __future__ import annotations

import colorsys
from pathlib import Path

import numpy as np
from PIL import Image

_SIZE = (40, 32)
_NOISE = 20.0


def make_imagenet_tree(
    root: Path, n_classes: int = 12, per_class: int = 6, n_val: int = 2, flat_val: bool = False
) -> tuple[str, ...]:
    """Write ``train/WNID/*.JPEG`` and ``val/WNID/*.JPEG``, and return the WordNet ids by class number.

    A class is a colour with noise on it, so a network can learn it from few images. As in the real set, the
    validation images are numbered without regard to their classes. With `flat_val` they lie in ``val`` itself, and
    ``val.txt`` has their labels. The same arguments give the same files.
    """
    wnids = tuple(f"n{1_440_764 + 3_779 * k:08}" for k in range(n_classes))
    for k, wnid in enumerate(wnids):
        for i in range(per_class):
            _write(root / "train" / wnid / f"{wnid}_{17 * i + 3}.JPEG", k, n_classes, (0, k, i))
    lines = []
    for number, k in enumerate(np.random.default_rng(n_classes).permutation(np.repeat(np.arange(n_classes), n_val)), 1):
        name = f"ILSVRC2012_val_{number:08}.JPEG"
        _write(root / "val" / ("" if flat_val else wnids[k]) / name, int(k), n_classes, (1, int(k), number))
        lines.append(f"{name} {k}\n")
    if flat_val:
        (root / "val.txt").write_text("".join(lines))
    return wnids


def _write(path: Path, k: int, n_classes: int, seed: tuple[int, int, int]) -> None:
    # Neighbouring hues differ in brightness too.
    colour = 255 * np.array(colorsys.hsv_to_rgb(k / n_classes, 0.6, (0.9, 0.7, 0.5)[k % 3]))
    noise = np.random.default_rng(seed).normal(0, _NOISE, (_SIZE[1], _SIZE[0], 3))
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.clip(colour + noise, 0, 255).astype(np.uint8)).save(path, quality=90)
