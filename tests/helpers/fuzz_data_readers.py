"""Readers of images for fuzzing: CIFAR, IDX, folders, lists, Parquet, and archives."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fuzz_reader import PARQUET_PAGES, Reader
from PIL import Image

from energyalign.experiments.data.download import unpack
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.data.sources.cifar import CIFAR10, CIFAR100, Cifar
from energyalign.experiments.data.sources.fashion import FashionMnist
from energyalign.experiments.data.sources.folder import Folder
from energyalign.experiments.data.sources.hf_parquet import HuggingFaceParquet
from energyalign.experiments.data.sources.imagenet import ImageNet
from energyalign.experiments.data.sources.lists import any_lists, imagenet_lt
from energyalign.experiments.data.verify import verify_images

_RNG = np.random.default_rng(0)


def _picture(form: str, size: tuple[int, int] = (9, 8), mode: str = "RGB", **options: Any) -> bytes:
    pixels = _RNG.integers(0, 256, (size[1], size[0], 4), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels, "RGBA").convert(mode).save(stream, form, **options)
    return stream.getvalue()


def _used(images: ImageSet) -> None:
    """Use a source like a run does: decode every image."""
    verify_images(images)
    for index in range(len(images)):
        assert images.read(index).shape[0] in (1, 3)


def _cifar_binary() -> Reader:
    layouts = [
        dataclasses.replace(CIFAR10, images_per_file={"train": 2, "test": 2}),
        dataclasses.replace(CIFAR100, images_per_file={"train": 2, "test": 2}),
    ]
    samples = []
    for layout in layouts:
        record = b"".join(bytes(layout.label_bytes) + _RNG.bytes(3072) for _ in range(2))
        samples.append({f"{layout.folder}/{name}": record for name in layout.files["test"]})
    return Reader(lambda folder: _used(Cifar(layouts[int(folder.name)], folder).load("test")), samples)


def _cifar_folders() -> Reader:
    layout = dataclasses.replace(CIFAR10, class_names=("cat", "dog"))
    sample = {f"train/{name}/0.png": _picture("PNG", (32, 32)) for name in layout.class_names}
    return Reader(lambda folder: _used(Cifar(layout, folder).load("train")), [sample])


def _idx() -> Reader:
    pixels = struct.pack(">HBB3I", 0, 8, 3, 10, 2, 3) + _RNG.bytes(60)
    labels = struct.pack(">HBB1I", 0, 8, 1, 10) + bytes(range(10))
    plain = {"train-images-idx3-ubyte": pixels, "train-labels-idx1-ubyte": labels}
    packed = {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in plain.items()}
    return Reader(lambda folder: _used(FashionMnist(folder).load("train")), [plain, packed])


def _folder() -> Reader:
    forms: list[tuple[str, str, dict[str, Any]]] = [
        ("PNG", "RGBA", {}), ("PNG", "P", {}), ("PNG", "I;16", {}), ("JPEG", "RGB", {}),
        ("JPEG", "CMYK", {"progressive": True}),
        ("BMP", "RGB", {}), ("GIF", "P", {}), ("WEBP", "RGBA", {}), ("TIFF", "RGB", {"compression": "tiff_lzw"}),
        ("TIFF", "L", {}), ("PPM", "RGB", {}), ("PPM", "L", {}),
    ]  # fmt: skip
    samples = []
    for number, (form, mode, options) in enumerate(forms):
        ending = {"JPEG": "jpg", "PPM": "ppm" if mode == "RGB" else "pgm"}.get(form, form.lower())
        picture = _picture(form, (70, 9) if number % 2 else (9, 8), "L" if mode == "I;16" else mode, **options)
        if mode == "I;16":
            stream = io.BytesIO()
            Image.fromarray(_RNG.integers(0, 65536, (8, 9), dtype=np.uint16)).save(stream, form)
            picture = stream.getvalue()
        samples.append({f"train/cat/0.{ending}": picture, f"train/dog/0.{ending}": picture})
    fixed = [path for sample in samples for path in sample if "dog" in path]
    return Reader(lambda folder: _used(Folder(folder).load("train")), samples, fixed=fixed)


def _lists() -> Reader:
    sample = {
        "train.txt": b"a.png 0\nb b.png 1\na.png 1\n", "test.txt": b"a.png 1\nb b.png 0\n",
        "a.png": _picture("PNG"), "b b.png": _picture("PNG"),
    }  # fmt: skip

    def read(folder: Path) -> None:
        source = any_lists(folder)
        _used(source.load("train"))
        _used(source.load("test"))

    return Reader(read, [sample], fixed=["a.png", "b b.png"])


def _imagenet_lt() -> Reader:
    lines = "".join(f"train/n{k:08}/n{k:08}_{i}.JPEG {k}\n" for k in range(3) for i in range(3 - k)).encode()
    sample = {f"ImageNet_LT_{split}.txt": lines for split in ("train", "val", "test")}
    return Reader(lambda folder: imagenet_lt(folder).load("test"), [sample], named="ImageNet_LT_")


def _imagenet_val() -> Reader:
    sample = {
        "val.txt": b"x_1.JPEG 0\nx_2.JPEG 1\n",
        "val/x_1.JPEG": _picture("JPEG"),
        "val/x_2.JPEG": _picture("JPEG"),
    }
    sample |= {f"train/n0144076{k}/a.JPEG": b"" for k in range(2)}
    fixed = [path for path in sample if path != "val.txt"]
    return Reader(lambda folder: _used(ImageNet(folder).load("test")), [sample], fixed=fixed)


def _hub_parquet() -> Reader:
    note = {"huggingface": json.dumps({"info": {"features": {"label": {"names": ["cat", "dog"]}}}})}
    samples = []
    for size, metadata, options in (
        ((9, 8), note, {}), ((70, 9), None, {"compression": "none"}), ((9, 8), None, {"use_dictionary": False}),
    ):  # fmt: skip
        images = [{"bytes": _picture("PNG", size), "path": None} for _ in range(3)]
        table = pa.table({"image": images, "label": [0, 1, 1]}).replace_schema_metadata(metadata)
        stream = io.BytesIO()
        pq.write_table(table, stream, **options)
        samples.append({"train-0.parquet": stream.getvalue()})
    return Reader(lambda folder: _used(HuggingFaceParquet(folder).load("train")), samples, reserved=PARQUET_PAGES)


def _archive() -> Reader:
    samples = []
    for mode in ("w", "w:gz"):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode=mode) as tar:  # type: ignore[call-overload]
            for name in ("set/a.bin", "set/b.bin"):
                info = tarfile.TarInfo(name)
                info.size = 600
                tar.addfile(info, io.BytesIO(_RNG.bytes(600)))
        samples.append({"set.tar.gz": stream.getvalue()})

    def read(folder: Path) -> None:
        unpack(folder / "set.tar.gz", ["set/a.bin", "set/b.bin"], folder / "out")
        outside = {path.name for path in folder.iterdir()} - {"set.tar.gz", "out"}
        assert not outside, outside

    return Reader(read, samples, named="set.tar.gz")


READERS: dict[str, Callable[[], Reader]] = {
    "CIFAR in binary": _cifar_binary,
    "CIFAR in folders": _cifar_folders,
    "IDX": _idx,
    "image folders": _folder,
    "image lists": _lists,
    "ImageNet-LT lists": _imagenet_lt,
    "ImageNet validation list": _imagenet_val,
    "Parquet of the hub": _hub_parquet,
    "archive of a download": _archive,
}
