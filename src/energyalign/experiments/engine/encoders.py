"""From texts or images to features, by a model of the user's."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from safetensors.numpy import save

from energyalign.core._io.atomic import atomic_write
from energyalign.core.errors import EnergyAlignError, reason_of, some_of
from energyalign.experiments.data.loader import evaluation_batches
from energyalign.experiments.data.sources import open_source
from energyalign.experiments.data.texts import read_texts
from energyalign.experiments.engine.network import looks_of
from energyalign.experiments.nets.libraries import make_library_backbone
from energyalign.experiments.nets.registry import is_of_library

Floats32 = npt.NDArray[np.float32]
Progress = Callable[[int, int], None]
_TEXTS_IN_BATCH = _IMAGES_IN_BATCH = 64


class Encoded(NamedTuple):
    """One split: features and the class name of each sample."""

    features: Floats32
    labels: Sequence[str]


def save_features(path: Path, parts: Mapping[str, Encoded]) -> None:
    """Write splits for ``features:PATH``; classes are numbered in the order of their names."""
    names = sorted(set(parts["train"].labels))
    number = {name: k for k, name in enumerate(names)}
    arrays: dict[str, npt.NDArray[Any]] = {}
    for split, part in parts.items():
        unknown = sorted(set(part.labels) - number.keys())
        if unknown:
            raise EnergyAlignError(f"the {split} part has classes that training has not: {some_of(unknown)}.")
        arrays[f"x_{split}"] = part.features
        arrays[f"y_{split}"] = np.array([number[label] for label in part.labels], dtype=np.int64)
    with atomic_write(path, "wb") as stream:
        stream.write(save(arrays, {"names": json.dumps(names)}))


def encode_texts(
    samples: str | Path, test: str | Path | None, folder: Path, *, progress: Progress | None = None
) -> dict[str, Encoded]:
    """Features of labelled texts by a transformer with its tokenizer, both in a local folder.

    See `energyalign.experiments.data.texts` for the files. Features are the mean over the tokens of a text, brought to
    length one, as sentence encoders have it.
    """
    splits = read_texts(Path(samples))
    if test is not None:
        if "test" in splits:
            raise EnergyAlignError(f"{samples} has a test part of its own: leave out {test}.")
        splits["test"] = read_texts(Path(test))["train"]
    tokenizer, model = _load_transformer(folder)
    # Texts of similar length go through the model together.
    texts = [text for split in splits.values() for text in split.texts]
    order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
    features: Floats32 = np.empty((len(texts), model.config.hidden_size), dtype=np.float32)
    with torch.inference_mode():
        for start in range(0, len(order), _TEXTS_IN_BATCH):
            chosen = order[start : start + _TEXTS_IN_BATCH]
            batch = tokenizer([texts[index] for index in chosen], padding=True, truncation=True, return_tensors="pt")
            tokens, mask = model(**batch).last_hidden_state, batch["attention_mask"][:, :, None]
            mean = (tokens * mask).sum(dim=1) / mask.sum(dim=1)
            features[chosen] = torch.nn.functional.normalize(mean).numpy()
            if progress is not None:
                progress(start + len(chosen), len(order))
    ends = np.cumsum([len(split.texts) for split in splits.values()])[:-1]
    parts = np.split(features, ends)
    return {name: Encoded(part, split.labels) for (name, split), part in zip(splits.items(), parts, strict=True)}


def encode_images(
    dataset: str, model: str, weights: str | None, *, data_root: str | None = None, workers: int = 0,
    progress: Progress | None = None,
) -> dict[str, Encoded]:  # fmt: skip
    """Features of the images of a data set by a network of timm or torchvision, with weights of a file or the library.

    They are what the network has before its classifier, of images without augmentation.
    """
    if not is_of_library(model):
        raise EnergyAlignError(f"unknown model {model!r}: give torchvision:NAME or timm:NAME, or transformers:FOLDER.")
    if weights is None:
        raise EnergyAlignError(f"{model} needs --weights: features of an untrained network say nothing.")
    source = open_source(dataset, data_root)
    sets = {split: source.load(split) for split in source.splits}
    total, parts, n_done = sum(map(len, sets.values())), {}, 0
    for split, images in sets.items():
        channels = int(images.read(0).shape[0])
        backbone = make_library_backbone(model, in_channels=channels, weights=weights, **looks_of(images)).eval()
        blocks = []
        with torch.inference_mode():
            for batch in evaluation_batches(images, batch_size=_IMAGES_IN_BATCH, workers=workers):
                blocks.append(backbone(batch.images).numpy())
                n_done += len(batch.labels)
                if progress is not None:
                    progress(n_done, total)
        parts[split] = Encoded(np.concatenate(blocks), [images.class_names[k] for k in images.labels])
    return parts


def _load_transformer(folder: Path) -> tuple[Any, Any]:
    try:
        from transformers import AutoConfig, AutoModel, AutoTokenizer
    except ImportError as error:
        raise EnergyAlignError("encoding texts needs transformers: pip install transformers.") from error
    if not (folder / "config.json").is_file():
        raise EnergyAlignError(f"{folder} has no config.json: give the folder of a model of transformers.")
    options = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **options)
        config = AutoConfig.from_pretrained(folder, **options)
        # Attention as transformers chooses it: a config.json can name a repository whose code would be fetched and run.
        model = AutoModel.from_pretrained(
            folder, config=config, attn_implementation=None, use_safetensors=True, **options
        )
        return tokenizer, model.eval()
    except Exception as error:  # of as many kinds as there are ways to damage its files
        raise EnergyAlignError(
            f"the model in {folder} cannot be loaded ({reason_of(error)}): get or write it again."
        ) from error
