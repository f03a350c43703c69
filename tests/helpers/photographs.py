"""Image files of several sizes, which worker processes read during training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def make_photographs(folder: Path) -> Path:
    """Write two classes, one of them rare."""
    rng = np.random.default_rng(0)
    for split, numbers in (("train", (8, 4)), ("test", (2, 2))):
        for kind, number in zip(("cats", "dogs"), numbers, strict=True):
            (folder / split / kind).mkdir(parents=True)
            for index in range(number):
                pixels = rng.integers(0, 256, (70 + index, 90 - index, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / split / kind / f"{index:02d}.png")
    return folder


def longtail_command(folder: Path) -> list[str]:
    """Return the command of a small run on them."""
    options = "--backbone small-cnn --epochs 2 --batch-size 4 --corrector raw ea --evidence-size 2 --out run"
    return ["longtail", f"folder:{folder}", *options.split()]
