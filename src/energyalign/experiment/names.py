"""Names for folders and titles."""

from __future__ import annotations

import re


def short_name(dataset: str) -> str:
    """``folder:/data/my images`` becomes ``folder-my-images``."""
    kind, _, path = dataset.partition(":")
    return "-".join([kind, *re.findall(r"\w+", path.rstrip("/").rpartition("/")[2])])
