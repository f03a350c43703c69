"""Pictures that claim to be much larger than their file could hold: to decode one is to fill the memory."""

from __future__ import annotations

import io
from typing import BinaryIO

from PIL import Image

MOST_PIXELS = 4 * 2**20
MOST_PIXELS_PER_BYTE = 100  # a JPEG of one colour has some 80, a photograph ten at most
_WEBP_HEADER = 30


class TooLarge(ValueError):
    """A picture of more pixels than are decoded."""


def open_picture(stream: BinaryIO) -> Image.Image:
    """Open a picture, but do not decode it; one of too many pixels for its number of bytes is refused."""
    # Out of memory: Pillow asks for as many bytes as a header says, and a file takes room for them before it reads.
    content = stream.read()
    # Pillow takes room for all pixels of a WebP already when it opens it.
    _refuse_too_large(*_webp_size(content[:_WEBP_HEADER]), len(content))
    image = Image.open(io.BytesIO(content))
    _refuse_too_large(*image.size, len(content))
    return image


def _refuse_too_large(width: int, height: int, n_bytes: int) -> None:
    most = max(MOST_PIXELS, MOST_PIXELS_PER_BYTE * n_bytes)
    if width * height > most:
        raise TooLarge(
            f"it claims to have {width:,} x {height:,} pixels in {n_bytes:,} bytes, and at most {most:,} pixels are "
            "decoded from so few"
        )


def _webp_size(start: bytes) -> tuple[int, int]:
    """Width and height by the first bytes of a WebP file; zeros for any other."""
    if start[:4] != b"RIFF" or start[8:12] != b"WEBP":
        return 0, 0
    number = int.from_bytes(start[12:], "little")

    def bits(byte: int, first: int, n: int) -> int:
        return (number >> (8 * (byte - 12) + first)) & ((1 << n) - 1)

    match start[12:16]:
        case b"VP8X":
            return 1 + bits(24, 0, 24), 1 + bits(27, 0, 24)
        case b"VP8L":
            return 1 + bits(21, 0, 14), 1 + bits(21, 14, 14)
        case _:
            return bits(26, 0, 14), bits(28, 0, 14)
