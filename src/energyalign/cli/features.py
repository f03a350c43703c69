"""`energyalign features`: compute features of texts or images with the user's model."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

DESCRIPTION = (
    "Compute features of labelled texts or images with a model on this machine, for experiments on features:FILE. "
    "Features of a text are the mean over its tokens, scaled to length one; features of an image are the input of "
    "the model's head."
)
EXAMPLES = """\
examples:
  energyalign features train.csv --test test.csv --model transformers:my_encoder --out texts.safetensors
  energyalign features clinc.json --model transformers:my_encoder --out clinc.safetensors
  energyalign features folder:my_images --model torchvision:resnet50 --weights resnet50.safetensors --out x.safetensors
  energyalign longtail features:clinc.safetensors --imbalance 100            train on them
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("samples", metavar="SAMPLES",
        help="texts: a .csv or .tsv file with the columns text and label, or a .json object with the keys train, test "
        "and val, each a list of [text, label]; images: a name from `energyalign list datasets`, folder:PATH, "
        "...")  # fmt: skip
    add("--test", metavar="FILE",
        help="test set, a .csv or .tsv file too (default: the experiments hold out a part)")  # fmt: skip
    add("--model", required=True, metavar="KIND:NAME",
        help="transformers:FOLDER for texts; torchvision:NAME or timm:NAME for images")  # fmt: skip
    add("--weights", metavar="PATH",
        help="weights of an image model: a .safetensors file, or `default` to download its library's")  # fmt: skip
    add("--data-root", metavar="DIR", help="folder of the data set (default: data)")
    add("--workers", type=int, default=2, metavar="N", help="processes that read image files (default: 2)")
    add("--out", required=True, metavar="FILE.safetensors", help="the file to write")


def run(arguments: argparse.Namespace) -> None:
    """Read the samples, compute their features, write the file."""
    from energyalign.cli.terminal import Progress
    from energyalign.core._io.atomic import check_outputs
    from energyalign.core.errors import EnergyAlignError
    from energyalign.experiments.engine.encoders import check_image_model, encode_images, encode_texts, save_features

    out, (kind, _, name) = Path(arguments.out), arguments.model.partition(":")
    if {out.suffix, out.resolve().suffix} != {".safetensors"}:  # a link could lead to an image
        raise EnergyAlignError(f"--out must end with .safetensors, got {out}.")
    if kind != "transformers":
        check_image_model(arguments.model, arguments.weights)
    check_outputs([out], _inputs(arguments, Path(name) if kind == "transformers" else None))
    with Progress() as progress:
        if kind == "transformers":
            parts = encode_texts(arguments.samples, arguments.test, Path(name), progress=progress.show("texts"))
        else:
            parts = encode_images(
                arguments.samples, arguments.model, arguments.weights, data_root=arguments.data_root,
                workers=arguments.workers, progress=progress.show("images"),
            )  # fmt: skip
    save_features(out, parts)
    sizes = ", ".join(f"{len(part.labels):,} of {split}" for split, part in parts.items())
    n_features = parts["train"].features.shape[1]
    print(f"Wrote {out}: {n_features} features of {sizes}. Next: energyalign longtail features:{out}")


def _inputs(arguments: argparse.Namespace, model: Path | None) -> Iterator[str | Path | None]:
    """Yield every input file."""
    from energyalign.experiments.data.sources import open_source

    yield from (arguments.weights, arguments.test)
    if model is not None:
        yield arguments.samples
        yield from model.rglob("*")
    else:
        source = open_source(arguments.samples, arguments.data_root)
        yield from (path for split in source.splits for path in source.files(split))
