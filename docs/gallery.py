"""Order and arguments of the examples in the gallery."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

ORDER = [
    "cifar100_lt.py",
    "logits_before_and_after.py",
    "scikit_learn_digits.py",
    "effective_sample_size.py",
    "lightgbm_margins.py",
    "timm_model.py",
    "torchvision_image_folder.py",
    "hugging_face_text.py",
]
_FILES = Path(__file__).parent / "_build" / "examples"
_DIGIT_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TRAINING_IMAGES = (80, 53, 35, 23, 15, 10, 6, 4, 3, 2)


class QuickFirst:
    """Sort key of the gallery: by `ORDER`; other examples come last, by name."""

    def __init__(self, source_dir: str) -> None:
        self.source_dir = source_dir

    def __call__(self, name: str) -> tuple[int, str]:
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def arguments(_config: dict[str, Any], script: dict[str, Any]) -> list[str]:
    """Return the arguments of an example, so that its files go below the build folder; one example needs images."""
    _FILES.mkdir(parents=True, exist_ok=True)
    source = Path(script["src_file"])
    files = os.path.relpath(_FILES, source.parent)  # examples run in place, and print paths relative to it
    given = {
        "lightgbm_margins.py": ["--out", f"{files}/shifts.json"],
        "hugging_face_text.py": ["--out", f"{files}/aligned_text_model"],
        "torchvision_image_folder.py": [f"{files}/digits", "--epochs", "4", "--out", f"{files}/aligned.safetensors"],
    }
    name = source.name
    if name == "torchvision_image_folder.py":
        _write_digits(_FILES / "digits")
    return given.get(name, [])


def _write_digits(folder: Path) -> None:
    """Write digits as PNG files: few of some classes in train/, the same number of every class in val/ and test/."""
    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    rng = np.random.default_rng(0)
    for digit, (name, count) in enumerate(zip(_DIGIT_NAMES, _TRAINING_IMAGES, strict=True)):
        chosen = rng.permutation(np.flatnonzero(digits.target == digit))
        for part, numbers in {"val": chosen[:40], "test": chosen[40:90], "train": chosen[90 : 90 + count]}.items():
            (folder / part / name).mkdir(parents=True, exist_ok=True)
            for number in numbers:
                pixels = (digits.images[number] * 15).astype(np.uint8)
                Image.fromarray(pixels).save(folder / part / name / f"{number}.png")
