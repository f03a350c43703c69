"""Encode texts or images as features, with a model of the user."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from safetensors.numpy import save

from energyalign.core._io.atomic import atomic_write
from energyalign.core._io.regular import open_regular
from energyalign.core._io.strict_json import read_json_file
from energyalign.core.errors import EnergyAlignError, reason_of, some_of
from energyalign.experiments.data.loader import evaluation_batches
from energyalign.experiments.data.sources import open_source
from energyalign.experiments.engine.trained import input_format
from energyalign.experiments.nets.libraries import make_library_backbone
from energyalign.experiments.nets.registry import is_of_library
from energyalign.files.checks import reading, require_extension

Floats32 = npt.NDArray[np.float32]
Progress = Callable[[int, int], None]
_BATCH_SIZE = 64
_SPLITS = {"train": "train", "test": "test", "val": "val", "validation": "val"}
_LABELS = ("label", "labels", "category", "intent", "class")
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


class Encoded(NamedTuple):
    """Features and class names of one split."""

    features: Floats32
    labels: Sequence[str]


def save_features(path: Path, parts: Mapping[str, Encoded]) -> None:
    """Write the file of ``features:PATH``; classes are numbered in alphabetical order."""
    names = sorted(set(parts["train"].labels))
    number = {name: k for k, name in enumerate(names)}
    arrays: dict[str, npt.NDArray[Any]] = {}
    for split, part in parts.items():
        unknown = sorted(set(part.labels) - number.keys())
        if unknown:
            raise EnergyAlignError(
                f"the {split} part has classes that the training part lacks: {some_of(unknown)}. Remove them."
            )
        arrays[f"x_{split}"] = part.features
        arrays[f"y_{split}"] = np.array([number[label] for label in part.labels], dtype=np.int64)
    with atomic_write(path, "wb") as stream:
        stream.write(save(arrays, {"names": json.dumps(names)}))


class Texts(NamedTuple):
    """Texts and class names of one split."""

    texts: list[str]
    labels: list[str]


def read_texts(path: Path) -> dict[str, Texts]:
    """Read labelled texts by split: a table has only the training split, JSON may have all splits.

    A .csv or .tsv table has a header with the column ``text`` and one of `_LABELS`. A .json file is an object from
    ``train``, ``test`` and ``val`` to lists of ``[text, label]``; other keys are ignored.
    """
    extension = require_extension(path, (*_DELIMITERS, ".json"))
    with reading(str(path), f"a {extension} file of texts"):
        if extension != ".json":
            return {"train": _read_table(path, _DELIMITERS[extension])}
        content = read_json_file(path)
        if not isinstance(content, dict) or "train" not in content:
            raise EnergyAlignError(f"{path} must hold an object with the key train: a list of [text, label].")
        return {_SPLITS[key]: _pairs(path, key, value) for key, value in content.items() if key in _SPLITS}


def _read_table(path: Path, delimiter: str) -> Texts:
    with open_regular(path) as stream:
        lines = stream.read().decode("utf-8-sig").splitlines()
    rows = csv.DictReader(lines, delimiter=delimiter)
    names = rows.fieldnames or []
    label = next((name for name in _LABELS if name in names), None)
    if "text" not in names or label is None:
        raise EnergyAlignError(
            f"{path} needs a header with the column text and one of {', '.join(_LABELS)}; it has {some_of(names)}."
        )
    return _pairs(path, "train", ([row["text"], row[label]] for row in rows))


def _pairs(path: Path, split: str, values: Iterable[Any]) -> Texts:
    texts, labels = [], []
    for number, value in enumerate(values, 1):
        if not (isinstance(value, list) and len(value) == 2 and all(isinstance(one, str) for one in value)):
            raise EnergyAlignError(f"{path}: sample {number} of {split} must be a text and a label, got {value!r:.80}.")
        texts.append(value[0])
        labels.append(value[1])
    if not texts:
        raise EnergyAlignError(f"{path} has no sample of {split}: add labelled samples.")
    return Texts(texts, labels)


def encode_texts(
    samples: str | Path, test: str | Path | None, folder: Path, *, progress: Progress | None = None
) -> dict[str, Encoded]:
    """Encode labelled texts with a transformer and its tokenizer, both in a local folder.

    See `read_texts` for the files. The features of a text are the mean over its tokens, scaled to length one as in
    sentence encoders.
    """
    splits = read_texts(Path(samples))
    if test is not None:
        if "test" in splits:
            raise EnergyAlignError(f"{samples} has a test part of its own: leave out {test}.")
        splits["test"] = read_texts(Path(test))["train"]
    tokenizer, model = _load_transformer(folder)
    # Batch texts of similar length: it saves padding.
    texts = [text for split in splits.values() for text in split.texts]
    order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
    features: Floats32 = np.empty((len(texts), model.config.hidden_size), dtype=np.float32)
    with torch.inference_mode():
        for start in range(0, len(order), _BATCH_SIZE):
            chosen = order[start : start + _BATCH_SIZE]
            batch = tokenizer([texts[index] for index in chosen], padding=True, truncation=True, return_tensors="pt")
            tokens, mask = model(**batch).last_hidden_state, batch["attention_mask"][:, :, None]
            mean = (tokens * mask).sum(dim=1) / mask.sum(dim=1)
            features[chosen] = torch.nn.functional.normalize(mean).numpy()
            if progress is not None:
                progress(start + len(chosen), len(order))
    ends = np.cumsum([len(split.texts) for split in splits.values()])[:-1]
    parts = np.split(features, ends)
    return {name: Encoded(part, split.labels) for (name, split), part in zip(splits.items(), parts, strict=True)}


def check_image_model(model: str, weights: str | None) -> None:
    """Raise if `encode_images` cannot use this model."""
    if not is_of_library(model):
        raise EnergyAlignError(f"unknown model {model!r}: give torchvision:NAME or timm:NAME, or transformers:FOLDER.")
    if weights is None:
        raise EnergyAlignError(f"{model} needs --weights: an untrained network computes meaningless features.")


def encode_images(
    dataset: str, model: str, weights: str | None, *, data_root: str | None = None, workers: int = 0,
    progress: Progress | None = None,
) -> dict[str, Encoded]:  # fmt: skip
    """Encode the images of a data set with a network of timm or torchvision, with weights of a file or the library.

    Features are the input of the network's classifier, for images without augmentation.
    """
    check_image_model(model, weights)
    source = open_source(dataset, data_root)
    sets = {split: source.load(split) for split in source.splits}
    total, parts, n_done = sum(map(len, sets.values())), {}, 0
    for split, images in sets.items():
        channels = int(images.read(0).shape[0])
        backbone = make_library_backbone(model, in_channels=channels, weights=weights, **input_format(images)).eval()
        blocks = []
        with torch.inference_mode():
            for batch in evaluation_batches(images, batch_size=_BATCH_SIZE, workers=workers):
                blocks.append(backbone(batch.images).numpy())
                n_done += len(batch.labels)
                if progress is not None:
                    progress(n_done, total)
        parts[split] = Encoded(np.concatenate(blocks), [images.class_names[k] for k in images.labels])
    return parts


def _load_transformer(folder: Path) -> tuple[Any, Any]:
    try:
        from transformers import AutoConfig, AutoModel, AutoTokenizer, PretrainedConfig
        from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES
        from transformers.utils.logging import disable_progress_bar
    except ImportError as error:
        raise EnergyAlignError("encoding texts needs transformers: pip install transformers.") from error
    if not (folder / "config.json").is_file():
        raise EnergyAlignError(f"{folder} has no config.json: give the folder of a transformers model.")
    disable_progress_bar()
    options = {"local_files_only": True, "trust_remote_code": False}
    try:
        config = AutoConfig.from_pretrained(folder, **options)
        nested = any(isinstance(value, PretrainedConfig) for value in vars(config).values())
        if nested or config.model_type not in TOKENIZER_MAPPING_NAMES:
            # config.json of other models can name parts that timm would download, or load from pickles.
            raise ValueError(f"{config.model_type} is not a type of model for texts only")
        tokenizer = AutoTokenizer.from_pretrained(folder, **options)
        # attn_implementation=None: a config.json can name a repository whose code would be fetched and run.
        model = AutoModel.from_pretrained(
            folder, config=config, attn_implementation=None, use_safetensors=True, **options
        )
        return tokenizer, model.eval()
    except Exception as error:  # damaged files raise errors of many types
        raise EnergyAlignError(
            f"the model in {folder} cannot be loaded ({reason_of(error)}): get or write it again."
        ) from error
