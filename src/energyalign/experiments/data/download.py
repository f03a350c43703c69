"""Download published files. Only `energyalign data check --download` does."""

from __future__ import annotations

import hashlib
import tarfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from energyalign.core._io.atomic import atomic_write
from energyalign.core.errors import EnergyAlignError, reason_of

_CHUNK = 2**20
_TIMEOUT = 60  # seconds without a byte


@dataclass(frozen=True)
class Published:
    """A file with the address and the MD5 sum that its authors publish.

    The MD5 sum detects damaged downloads; it does not prove who made the file.
    """

    url: str
    md5: str

    @property
    def file_name(self) -> str:
        """Last part of the address."""
        return self.url.rpartition("/")[2]

    def fetch(self, folder: Path) -> Path:
        """Download the file into a folder, which is created if needed; a failure leaves no partial file."""
        target = folder / self.file_name
        digest = hashlib.md5(usedforsecurity=False)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with urllib.request.urlopen(self.url, timeout=_TIMEOUT) as response, atomic_write(target, "wb") as stream:
                while chunk := response.read(_CHUNK):
                    digest.update(chunk)
                    stream.write(chunk)
                if digest.hexdigest() != self.md5:
                    raise EnergyAlignError(
                        f"{self.url} must have the MD5 sum {self.md5}, got {digest.hexdigest()}: the download is "
                        "incomplete, or was replaced on the way. Try again, or fetch it by hand."
                    )
        except (OSError, urllib.error.URLError) as error:
            raise EnergyAlignError(
                f"cannot download {self.url} to {folder} ({error}). Check the connection and the folder, or fetch the "
                "file by hand and unpack it there."
            ) from error
        return target


def unpack(archive: Path, members: Sequence[str], folder: Path) -> None:
    """Extract these members of a tar archive, and no others, to the same paths below a folder."""
    try:
        with tarfile.open(archive) as tar:
            for member in members:
                content = tar.extractfile(member)
                if content is None:
                    raise KeyError(member)
                target = folder / member
                target.parent.mkdir(parents=True, exist_ok=True)
                with content, atomic_write(target, "wb") as stream:
                    while chunk := content.read(_CHUNK):
                        stream.write(chunk)
    except (KeyError, tarfile.TarError, EOFError, OSError) as error:
        raise EnergyAlignError(
            f"cannot unpack {archive} ({reason_of(error)}). Delete it and fetch it again."
        ) from error
