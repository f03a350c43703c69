"""Pictures of every kind are converted to RGB as viewers show them, or refused."""

from __future__ import annotations

import os

import numpy as np
import pytest
from PIL import Image

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.file_images import DiskFiles, FileImages
from energyalign.experiments.data.pictures import read_pixels
from energyalign.experiments.data.preparation import LargePreparation, Normalisation
from energyalign.experiments.data.sources.folder import EXTENSIONS


@pytest.fixture
def read(tmp_path):
    """Save a row of colours under a name, and read it as the loaders do."""

    def through(picture, name, **options):
        picture.save(tmp_path / name, **options)
        preparation = LargePreparation(Normalisation((0.5,) * 3, (0.5,) * 3))
        images = FileImages(
            "x train", DiskFiles(tmp_path, (name,)), np.arange(1), np.zeros(1, int), ("a",), preparation
        )
        return [tuple(colour) for colour in images.read(0)[:, 0].T.tolist()]

    return through


@pytest.mark.parametrize("name", ["x.png", "x.tif"])
def test_16_bits_are_scaled_to_8(read, name):
    """Clipped at 255, all but the first would be white."""
    deep = np.array([[0, 128, 129, 257, 25_700, 32_768, 65_535]], dtype=np.uint16)
    assert read(Image.fromarray(deep), name) == [(v, v, v) for v in (0, 0, 1, 1, 100, 128, 255)]


def test_16_bits_with_the_large_byte_first(read, tmp_path):
    deep = np.array([[0, 25_700, 65_535]], dtype=">u2")
    picture = Image.frombytes("I;16B", (3, 1), deep.tobytes())
    assert read(picture, "x.tif") == [(0, 0, 0), (100, 100, 100), (255, 255, 255)]


@pytest.mark.parametrize(("kind", "words"), [(np.int32, "whole numbers"), (np.float32, "floating-point numbers")])
def test_pictures_of_an_unknown_range_are_refused(read, kind, words):
    pixels = np.array([[0, 1, 70_000]], dtype=kind)
    with pytest.raises(EnergyAlignError, match=rf"x\.tif has {words} of 32 bits .*: convert it to 8 bits per channel"):
        read(Image.fromarray(pixels), "x.tif")


def test_what_is_transparent_is_white(read):
    clear, half, full = (10, 20, 30, 0), (0, 100, 200, 51), (10, 20, 30, 255)
    colours = Image.fromarray(np.array([[clear, half, full]], dtype=np.uint8))
    expected = [(255, 255, 255), (204, 224, 244), (10, 20, 30)]
    assert read(colours, "x.png") == expected
    assert read(colours, "x.webp", lossless=True, exact=True) == expected


def test_transparent_grey(read):
    grey = Image.frombytes("LA", (3, 1), bytes([10, 0, 100, 51, 10, 255]))
    assert read(grey, "x.png") == [(255,) * 3, (224,) * 3, (10,) * 3]


@pytest.mark.parametrize(("name", "transparency"), [("x.png", 1), ("x.png", bytes([255, 0])), ("x.gif", 1)])
def test_transparent_palettes_are_read_without_a_warning(read, name, transparency):
    picture = Image.frombytes("P", (3, 1), bytes([0, 1, 2]))
    picture.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90])
    assert read(picture, name, transparency=transparency) == [(10, 20, 30), (255, 255, 255), (70, 80, 90)]


def test_a_transparent_colour_of_a_picture_without_an_alpha_channel(read):
    picture = Image.fromarray(np.array([[[1, 2, 3], [4, 5, 6]]], dtype=np.uint8))
    assert read(picture, "x.png", transparency=(1, 2, 3)) == [(255, 255, 255), (4, 5, 6)]


def test_other_modes_are_as_pillow_has_them(read):
    assert read(Image.fromarray(np.array([[0, 77]], dtype=np.uint8)), "x.png") == [(0, 0, 0), (77, 77, 77)]
    assert read(Image.fromarray(np.array([[True, False]])), "x.png") == [(255, 255, 255), (0, 0, 0)]
    cmyk = Image.new("CMYK", (1, 1), (0, 255, 255, 0))
    assert read(cmyk, "x.tif") == [(255, 0, 0)]


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_every_extension_that_is_looked_for_can_be_read(read, extension):
    assert read(Image.new("RGB", (2, 1), "white"), f"x{extension}") == [(255,) * 3] * 2


@pytest.mark.parametrize("kind", ["EPS", "PDF", "ICO", "TGA", "PCX", "SGI", "DDS", "JPEG2000"])
def test_other_formats_are_refused_whatever_their_name(read, kind):
    """Pillow passes PostScript to Ghostscript, which executes it."""
    Image.init()
    with pytest.raises(EnergyAlignError, match=r"cannot read the image .*x\.jpg \(its format is not one of JPEG, "):
        read(Image.new("RGB", (16, 16)), "x.jpg", format=kind)


def test_postscript_does_not_reach_ghostscript(read, tmp_path, monkeypatch):
    """A program of that name, first on the path, would leave a file."""
    program, mark = tmp_path / "gs", tmp_path / "was called"
    program.write_text(f"#!/bin/sh\ntouch '{mark}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)  # found once, it is not looked for again
    with pytest.raises(EnergyAlignError, match="cannot read the image"):
        read(Image.new("RGB", (16, 16)), "cat.jpg", format="EPS")
    assert not mark.exists()


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("options", [{"progressive": True}, {"quality": 30, "subsampling": 2}])
def test_a_jpeg_has_the_pixels_that_pillow_decodes(tmp_path, mode, options):
    """JPEGs in other modes than RGB and grey are decoded by Pillow."""
    rng = np.random.default_rng(0)
    smooth = Image.fromarray(rng.integers(256, size=(5, 7, 3), dtype=np.uint8)).resize((70, 50))
    smooth.convert(mode).save(tmp_path / "x.jpg", **options)
    pixels = read_pixels((tmp_path / "x.jpg").read_bytes())
    expected = np.asarray(Image.open(tmp_path / "x.jpg").convert("RGB"))
    np.testing.assert_array_equal(pixels.permute(1, 2, 0), expected)


def test_a_cut_jpeg_is_named(read, tmp_path):
    picture = Image.fromarray(np.random.default_rng(0).integers(256, size=(60, 60, 3), dtype=np.uint8))
    read(picture, "x.jpg")
    content = (tmp_path / "x.jpg").read_bytes()
    preparation = LargePreparation(Normalisation((0.5,) * 3, (0.5,) * 3))
    (tmp_path / "cut.jpg").write_bytes(content[: len(content) // 2])
    images = FileImages(
        "x train", DiskFiles(tmp_path, ("cut.jpg",)), np.arange(1), np.zeros(1, int), ("a",), preparation
    )
    with pytest.raises(EnergyAlignError, match=r"cannot read the image .*cut\.jpg \(.*\)\. Get the file again"):
        images.read(0)
