"""One picture: opened unless it would fill the memory, and turned into 8 bits of red, green and blue."""

from __future__ import annotations

import io
from typing import BinaryIO

import numpy as np
from PIL import Image, UnidentifiedImageError

# All else is not even tried: Pillow would hand PostScript to Ghostscript, whatever the name of the file.
FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "TIFF", "PPM", "GIF")
MAX_PIXELS = 4 * 2**20
MAX_PIXELS_PER_BYTE = 100  # a JPEG of one colour has some 80, a photograph ten at most
_WEBP_HEADER = 30


def open_picture(stream: BinaryIO) -> Image.Image:
    """Open a picture, but do not decode it; other formats, and too many pixels for the bytes, are refused."""
    # Out of memory: Pillow asks for as many bytes as a header says, and a file takes room for them before it reads.
    content = stream.read()
    # Pillow takes room for all pixels of a WebP already when it opens it.
    _refuse_too_large(*_webp_size(content[:_WEBP_HEADER]), len(content))
    try:
        image = Image.open(io.BytesIO(content), formats=FORMATS)
    except UnidentifiedImageError as error:
        raise ValueError(f"it is none of {', '.join(FORMATS)}") from error
    _refuse_too_large(*image.size, len(content))
    return image


def _refuse_too_large(width: int, height: int, n_bytes: int) -> None:
    most = max(MAX_PIXELS, MAX_PIXELS_PER_BYTE * n_bytes)
    if width * height > most:
        raise ValueError(
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


class UnknownRangeError(ValueError):
    """Pixels whose darkest and brightest value the file does not state."""


def as_rgb(image: Image.Image) -> Image.Image:
    """The picture as it would look on white paper.

    - 16 bits a pixel (PNG, TIFF) are scaled to 8, the largest number to the largest. Pillow would cut them off at 255,
      which leaves white.
    - What is transparent shows white. Pillow would show the colour that the file has under it, often black, and of
      the same logo saved by two programs make two pictures.
    - 32-bit integers and floats are refused: whether white is 1, 255 or 65,535 is not in the file.
    """
    image.load()  # some formats know only then whether they are transparent
    if image.mode.startswith("I;16"):
        deep = np.asarray(image).astype(np.uint32)
        image = Image.fromarray(((deep + 128) // 257).astype(np.uint8))  # 65,535 = 255 * 257
    elif image.mode in ("I", "F"):
        raise UnknownRangeError(
            f"has {'whole' if image.mode == 'I' else 'floating-point'} numbers of 32 bits as pixels"
        )
    elif image.has_transparency_data:
        # By way of RGBA also for palettes, of which Pillow would warn otherwise.
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
    return image.convert("RGB")
