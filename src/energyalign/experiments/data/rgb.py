"""From a picture of any kind to 8 bits of red, green and blue, or a word on why that would be a guess."""

from __future__ import annotations

import numpy as np
from PIL import Image


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
