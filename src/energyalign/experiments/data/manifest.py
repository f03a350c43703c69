"""Manifests: the images of a run, in a file with a hash."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from energyalign.core._io.atomic import atomic_write
from energyalign.core._io.strict_json import read_json_file
from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError

if TYPE_CHECKING:
    from energyalign.experiments.data.images import ImageSet

SCHEMA = "energyalign.manifest"
VERSION = 3  # 1 had no images_sha256, 2 no test_sha256

_Images = TypeVar("_Images", bound="ImageSet")


@dataclass(frozen=True, eq=False)
class Manifest:
    """Which images of a data set a run trains on."""

    dataset: str
    sizes: dict[str, int]  # images of every split of the whole data set
    profile: str
    imbalance: float
    seed: int
    class_names: tuple[str, ...]
    counts: tuple[int, ...]  # images kept of every class
    labels_sha256: str  # hash of all labels of the data set: another copy may have other images at the same indices
    images_sha256: str  # hash of the pixels of the kept images, or of the names and sizes of their files
    test_sha256: str  # the same for the test images, and for their labels; empty if there are none
    indices: Ints  # indices of the kept images

    @property
    def sha256(self) -> str:
        """Hash of all fields, independent of the layout of the file and of where the images are stored."""
        text = json.dumps(self._identity(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def short_hash(self) -> str:
        """The first 12 digits of the hash, for people."""
        return self.sha256[:12]

    def select(self, train: _Images) -> _Images:
        """Return the images of this manifest; raise unless `train` is the set that it was made from."""
        if labels_digest(train.labels) != self.labels_sha256:
            raise EnergyAlignError(
                f"the manifest {self.short_hash} was made from another copy or another order of {self.dataset}: its "
                "labels differ from these. Point the data root to that copy, or make a new manifest."
            )
        chosen = train.subset(self.indices)
        if chosen.digest() != self.images_sha256:
            raise EnergyAlignError(
                f"the manifest {self.short_hash} was made from other images of {self.dataset}: only the labels are the "
                "same. Point the data root to the original images, or make a new manifest."
            )
        return chosen

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the manifest as JSON, atomically."""
        content = {"schema": SCHEMA, "version": VERSION, "sha256": self.sha256, **self._content()}
        lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in content.items())
        with atomic_write(path) as stream:
            stream.write(f"{{\n{lines}\n}}\n")

    def keep(self, path: str | os.PathLike[str]) -> None:
        """Save the manifest, or raise if another one is there: a run must resume with the same data.

        Call it after all files were verified: replacing a damaged one later would change the data.
        """
        if not Path(path).exists():
            self.save(path)
            return
        before = type(self).load(path)
        if before.sha256 != self.sha256:
            there, here = before._identity(), self._identity()
            differing = ", ".join(name for name in here if here[name] != there[name])
            raise EnergyAlignError(
                f"the data of {self.dataset} have changed since the run in {Path(path).parent} began: its manifest "
                f"was {before.short_hash} and now is {self.short_hash} (what differs: {differing}). Restore "
                "the data, or give another --out."
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote; raise if it was changed since."""
        try:
            content = read_json_file(path)
        except OSError as error:
            raise EnergyAlignError(
                f"cannot read the manifest {path}: {error.strerror or error}. Restore it."
            ) from error
        except ValueError as error:
            raise EnergyAlignError(f"the manifest {path} is not valid JSON ({error}): make it again.") from error
        if not isinstance(content, dict) or content.get("schema") != SCHEMA:
            raise EnergyAlignError(f'{path} is not a manifest: expected "schema": "{SCHEMA}".')
        if content.get("version") != VERSION:
            raise EnergyAlignError(
                f"the manifest {path} has version {content.get('version')!r}, but this energyalign reads {VERSION}: "
                "use the version of energyalign that wrote it."
            )
        try:
            values = {item.name: content[item.name] for item in fields(cls)}
            values["indices"] = np.array(values["indices"], dtype=np.int64)
            values |= {name: tuple(values[name]) for name in ("counts", "class_names")}
            manifest = cls(**values)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise EnergyAlignError(
                f"the manifest {path} has a missing or wrong entry ({error!r}): restore the original."
            ) from error
        if manifest.sha256 != content.get("sha256"):
            raise EnergyAlignError(
                f"the manifest {path} was changed after it was written: its hash does not match. Restore the original, "
                "or make a new one."
            )
        return manifest

    def _identity(self) -> dict[str, Any]:
        """Return what the hash covers. The folder is left out: moving the images does not change them."""
        kind, colon, _place = self.dataset.partition(":")
        return self._content() | {"dataset": kind + colon}

    def _content(self) -> dict[str, Any]:
        lists = {"indices": self.indices.tolist(), "counts": list(self.counts), "class_names": list(self.class_names)}
        return {item.name: getattr(self, item.name) for item in fields(self)} | lists


def labels_digest(labels: Ints) -> str:
    """Return the SHA-256 of labels in their order."""
    return hashlib.sha256(np.ascontiguousarray(labels, dtype="<i8").tobytes()).hexdigest()
