"""Open pictures safely, and convert them to 8-bit RGB."""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, UnidentifiedImageError

# No other formats: Pillow would pass PostScript to Ghostscript, whatever the name of the file.
FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "TIFF", "PPM", "GIF")
MAX_PIXELS = 4 * 2**20
MAX_PIXELS_PER_BYTE = 100  # a JPEG of a single colour has about 80 pixels per byte, a photograph at most 10
_WEBP_HEADER = 30
_JPEG, _SCAN = b"\xff\xd8\xff", b"\xff\xda"
_MAX_SCANS = 500  # of a progressive JPEG; photographs have about ten, and each takes time for all pixels


def open_picture(content: bytes) -> Image.Image:
    """Open a picture without decoding it; raise for another format, or for too many pixels per byte.

    The argument is bytes, not a file: Pillow asks for as many bytes as a header states, and a file would allocate them.
    """
    # Pillow allocates all pixels of a WebP when it opens it, so check its size before.
    _refuse_too_large(*_webp_size(content[:_WEBP_HEADER]), len(content))
    _refuse_many_scans(content)
    try:
        image = Image.open(io.BytesIO(content), formats=FORMATS)
    except UnidentifiedImageError as error:
        raise ValueError(f"its format is not one of {', '.join(FORMATS)}") from error
    _refuse_too_large(*image.size, len(content))
    return image


def read_pixels(content: bytes) -> torch.Tensor:
    """Decode a picture into 8-bit RGB of shape (3, H, W), like `as_rgb`."""
    pixels = _read_jpeg(content) if content.startswith(_JPEG) else None
    if pixels is None:
        with open_picture(content) as image:
            pixels = np.array(as_rgb(image))
    return torch.from_numpy(pixels).permute(2, 0, 1)


def _read_jpeg(content: bytes) -> npt.NDArray[np.uint8] | None:
    """Decode a JPEG into the pixels that Pillow would give, faster; None if the file is unusual."""
    import simplejpeg

    try:
        _refuse_many_scans(content)
        height, width, colours, _ = simplejpeg.decode_jpeg_header(content)
        _refuse_too_large(width, height, len(content))
        if colours in ("CMYK", "YCCK"):  # which Pillow converts in its own way
            return None
        pixels: npt.NDArray[np.uint8] = simplejpeg.decode_jpeg(content, "RGB")
    except ValueError:  # raised for warnings too: Pillow decides what can be read
        return None
    return pixels


def _refuse_too_large(width: int, height: int, n_bytes: int) -> None:
    most = max(MAX_PIXELS, MAX_PIXELS_PER_BYTE * n_bytes)
    if width * height > most:
        raise ValueError(
            f"its header says {width:,} x {height:,} pixels, but the limit for {n_bytes:,} bytes is {most:,} pixels"
        )


def _refuse_many_scans(content: bytes) -> None:
    n_scans = content.count(_SCAN) if content.startswith(_JPEG) else 0
    if n_scans > _MAX_SCANS:
        raise ValueError(f"it is a JPEG of {n_scans:,} scans, of which at most {_MAX_SCANS} are decoded")


def _webp_size(start: bytes) -> tuple[int, int]:
    """Return width and height from the first bytes of a WebP file; zeros for any other file."""
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
    """The file does not state which pixel values are black and white."""


def as_rgb(image: Image.Image) -> Image.Image:
    """Convert a picture to 8-bit RGB.

    - 16-bit pixels (PNG, TIFF) are scaled to 8 bits. Pillow would clip them at 255, which leaves white.
    - Transparency becomes white. Pillow would show the hidden colour, often black, which differs between programs that
      saved the same logo.
    - 32-bit integers and floats are refused: the file does not say whether white is 1, 255 or 65,535.
    """
    image.load()  # some formats know only after loading whether they are transparent
    if image.mode.startswith("I;16"):
        deep = np.asarray(image).astype(np.uint32)
        image = Image.fromarray(((deep + 128) // 257).astype(np.uint8))  # 65,535 = 255 * 257
    elif image.mode in ("I", "F"):
        raise UnknownRangeError(
            f"has {'whole' if image.mode == 'I' else 'floating-point'} numbers of 32 bits as pixels"
        )
    elif image.has_transparency_data:
        # Convert palettes to RGBA first: Pillow warns otherwise.
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
    return image.convert("RGB")
