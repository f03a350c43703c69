"""`energyalign features`: from texts and images to a file for experiments."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torchvision import models
from transformers import BertConfig, BertModel, BertTokenizer

from energyalign.cli.main import main
from energyalign.experiments.data.loader import evaluation_batches
from energyalign.experiments.data.sources import open_source
from energyalign.experiments.engine.stored import load_rows

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "card", "lost", "pay", "rent", "my"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a tiny transformer with random weights."""
    folder = tmp_path_factory.mktemp("encoder")
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    BertModel(config).save_pretrained(folder)
    return folder


def texts(path: Path, n: int, seed: int) -> Path:
    rng = np.random.default_rng(seed)
    kinds = {"lost_card": ["my", "card", "lost"], "pay_rent": ["pay", "my", "rent"]}
    lines = [f"{' '.join(rng.permutation(kinds[label]))},{label}" for label in kinds for _ in range(n)]
    path.write_text("\n".join(["text,category", *lines]))
    return path


def test_texts_become_features_that_an_experiment_takes(encoder: Path, tmp_path: Path) -> None:
    train, test = texts(tmp_path / "train.csv", 10, 0), texts(tmp_path / "test.csv", 4, 1)
    out, runs = tmp_path / "x.safetensors", tmp_path / "runs"
    command = ["features", str(train), "--test", str(test), "--model", f"transformers:{encoder}", "--out", str(out)]
    assert main(command) == 0
    loaded = open_source(f"features:{out}").load("train")
    assert loaded.class_names == ("lost_card", "pay_rent")
    assert np.bincount(loaded.labels).tolist() == [10, 10]
    lengths = loaded.images.norm(dim=1)  # of length one before dividing by their root mean square
    torch.testing.assert_close(lengths, torch.full((20,), math.sqrt(8)))
    assert main(["longtail", f"features:{out}", "--epochs", "2", "--corrector", "raw", "--out", str(runs)]) == 0
    assert len(load_rows(runs)) == 1


def test_features_of_a_text_do_not_depend_on_what_is_in_its_batch(encoder: Path, tmp_path: Path) -> None:
    features = []
    for other in (" ".join(["my"] * 50), "my card"):
        (tmp_path / "x.json").write_text(json.dumps({"train": [["my card", "a"], [other, "b"]]}))
        out, model = tmp_path / "x.safetensors", f"transformers:{encoder}"
        assert main(["features", str(tmp_path / "x.json"), "--model", model, "--out", str(out)]) == 0
        features.append(load_file(out)["x_train"][0])
    torch.testing.assert_close(*features, rtol=1e-4, atol=1e-6)


def test_images_become_features(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = models.get_model("shufflenet_v2_x0_5", weights=None)
    weights, out = tmp_path / "w.safetensors", tmp_path / "x.safetensors"
    save_file(net.state_dict(), weights)
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        folder = tmp_path / "images" / name
        folder.mkdir(parents=True)
        for k in range(5):
            Image.fromarray(rng.integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(folder / f"{k}.png")
    images, model = f"folder:{tmp_path / 'images'}", "torchvision:shufflenet_v2_x0_5"
    assert main(["features", images, "--model", model, "--weights", str(weights), "--out", str(out)]) == 0
    stored = load_file(out)
    batch = next(evaluation_batches(open_source(images).load("train"), batch_size=8))
    net.fc = torch.nn.Identity()
    resized = torch.nn.functional.interpolate(batch.images, (224, 224), mode="bilinear", antialias=True)
    with torch.inference_mode():
        torch.testing.assert_close(stored["x_train"], net.eval()(resized), rtol=1e-4, atol=1e-5)
    assert stored["y_test"].tolist() == [0, 1]


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "timm_wrapper", "architecture": "hf-hub:someone/net", "num_classes": 2, "pretrained_cfg": {}},
        {"model_type": "rag", "question_encoder": {"model_type": "timm_wrapper"}, "generator": {"model_type": "t5"}},
        {"model_type": "gemma3n", "vision_config": {"architecture": "hf-hub:someone/net"}},
    ],
)
def test_no_part_of_a_model_comes_from_elsewhere(
    config: dict[str, Any], encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Its config.json could name a pickle or a repository."""

    def create(*names: Any, **_options: Any) -> None:
        pytest.fail(f"timm was asked for {names}")

    monkeypatch.setattr("timm.create_model", create)
    model = shutil.copytree(encoder, tmp_path / "model")
    (model / "config.json").write_text(json.dumps(config))
    out = tmp_path / "x.safetensors"
    train = texts(tmp_path / "train.csv", 2, 0)
    assert main(["features", str(train), "--model", f"transformers:{model}", "--out", str(out)]) == 2
    assert "is not a type of model for texts only" in capsys.readouterr().err


def test_a_link_to_an_image_is_no_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "images" / "cat"
    folder.mkdir(parents=True)
    Image.new("RGB", (40, 40)).save(folder / "1.png")
    before = (folder / "1.png").read_bytes()
    (tmp_path / "x.safetensors").symlink_to(folder / "1.png")
    images, model = f"folder:{tmp_path / 'images'}", "torchvision:shufflenet_v2_x0_5"
    words = ["features", images, "--model", model, "--weights", "w", "--out", str(tmp_path / "x.safetensors")]
    assert main(words) == 2
    assert "--out must end with .safetensors" in capsys.readouterr().err
    assert (folder / "1.png").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (["--out", "x.npz"], "--out must end with .safetensors"),
        (["--model", "transformers:nowhere"], "nowhere has no config.json"),
        (["--model", "resnet50"], "unknown model 'resnet50'"),
        (["--model", "timm:resnet18"], "needs --weights"),
    ],
)
def test_bad_input_is_one_line(
    change: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    texts(Path("train.csv"), 2, 0)
    assert main(["features", "train.csv", "--model", "transformers:x", "--out", "x.safetensors", *change]) == 2
    err = capsys.readouterr().err
    assert problem in err
    assert len(err.splitlines()) == 1
    assert [path.name for path in Path().iterdir()] == ["train.csv"]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("x.csv", "a,b\n1,2\n", "needs a header with the column text"),
        ("x.csv", "text,label\n", "has no sample of train"),
        ("x.json", '{"test": []}', "must hold an object with the key train"),
        ("x.json", '{"train": [["only a text"]]}', "sample 1 of train must be a text and a label"),
        ("x.txt", "my card", "got .txt"),
    ],
)
def test_texts_that_cannot_be_read_are_named(
    name: str, content: str, problem: str, encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(content)
    model = f"transformers:{encoder}"
    assert main(["features", str(tmp_path / name), "--model", model, "--out", str(tmp_path / "o.safetensors")]) == 2
    err = capsys.readouterr().err
    assert problem in err
    assert str(tmp_path / name) in err


@pytest.mark.promise("No output overwrites an input", "pairs of files")
def test_no_file_of_the_model_is_written_over(
    encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = encoder / "model.safetensors"
    before = out.read_bytes()
    train = texts(tmp_path / "train.csv", 2, 0)
    assert main(["features", str(train), "--model", f"transformers:{encoder}", "--out", str(out)]) == 2
    words = ["features", "digits", "--model", "torchvision:resnet18", "--weights", str(out), "--out", str(out)]
    assert main(words) == 2
    assert capsys.readouterr().err.count("model.safetensors is the same file as the input ") == 2
    assert out.read_bytes() == before


def cut(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\x10")


def mistype(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "bert", "hidden_size": "x"}')


@pytest.mark.parametrize("damage", [cut, mistype])
def test_a_damaged_model_is_one_error(
    encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[Path], None]
) -> None:
    model = shutil.copytree(encoder, tmp_path / "model")
    damage(model)
    words = [
        "features",
        texts(tmp_path / "train.csv", 2, 0),
        "--model",
        f"transformers:{model}",
        "--out",
        "x.safetensors",
    ]
    assert main([str(word) for word in words]) == 2
    assert f"the model in {model} cannot be loaded (" in capsys.readouterr().err


@pytest.mark.promise("A hostile file cannot run code, escape its folder or exhaust memory", "hostile files")
def test_code_that_a_model_names_is_not_looked_for(encoder: Path, tmp_path: Path) -> None:
    """Attention may come from a repository, whose code transformers would download and run."""
    model = shutil.copytree(encoder, tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"_attn_implementation": "evil/kernel"}))
    train = texts(tmp_path / "train.csv", 2, 0)
    for folder in (encoder, model):
        words = ["--model", f"transformers:{folder}", "--out", str(tmp_path / f"{folder.name}.safetensors")]
        assert main(["features", str(train), *words]) == 0
    assert len({(tmp_path / f"{folder.name}.safetensors").read_bytes() for folder in (encoder, model)}) == 1
