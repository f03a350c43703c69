"""Networks of timm and torchvision as backbones: their input, their weights, and unsupported networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
import timm
import torch
from safetensors.torch import load, save_file
from torch import nn
from torch.nn import functional as F
from torchvision import models

from energyalign import EnergyAlignError
from energyalign.core.errors import CannotGoOn
from energyalign.experiments.nets.network import FrozenBackbone, make_network

torch.set_num_threads(1)


def timm_file(folder: Path, name: str = "test_resnet", seed: int = 7) -> tuple[Path, nn.Module]:
    """Save a whole network of timm, with its classifier; return it without the classifier too."""
    torch.manual_seed(seed)
    whole = timm.create_model(name, num_classes=11)
    path = folder / f"{name}.safetensors"
    save_file(whole.state_dict(), path)
    whole.reset_classifier(0)
    return path, whole.eval()


@pytest.mark.parametrize(
    ("name", "n_features"),
    [("timm:test_resnet", None), ("timm:test_vit", None), ("timm:test_convnext", None),
     ("torchvision:mobilenet_v3_small", 1024), ("torchvision:resnet18", 512)],
)  # fmt: skip
def test_any_network_by_its_name(name: str, n_features: int | None) -> None:
    network = make_network(name, 5, head="linear", size=(32, 40)).eval()
    images = torch.randn(2, 3, 32, 40)
    features = network.features(images)
    assert features.shape == (2, network.backbone.n_features)
    assert n_features in (None, features.shape[1])
    assert network(images).shape == (2, 5)


def test_images_as_they_are_where_the_network_takes_them() -> None:
    network = make_network("torchvision:resnet18", 5, size=(32, 32)).eval()
    images = torch.randn(2, 3, 32, 32)
    assert torch.equal(network.features(images), network.backbone.net(images))


def test_a_network_of_one_size_sees_that_size() -> None:
    """test_vit accepts 160 x 160 pixels only."""
    network = make_network("timm:test_vit", 5, size=(8, 8), mean=(0.5,) * 3, std=(0.5,) * 3).eval()
    images = torch.randn(2, 3, 8, 8)
    larger = F.interpolate(images, (160, 160), mode="bilinear", antialias=True)
    assert torch.equal(network.features(images), network.backbone.net(larger))


def test_with_weights_images_are_as_the_library_has_them(tmp_path: Path) -> None:
    """Grey pixels with the data set's normalisation become three channels with the library's normalisation and size."""
    path, net = timm_file(tmp_path)
    network = make_network(
        "timm:test_resnet", 5, weights=str(path), in_channels=1, size=(8, 8), mean=(0.3,), std=(0.2,)
    ).eval()
    pixels = torch.rand(2, 1, 8, 8)
    seen = F.interpolate((pixels.expand(-1, 3, -1, -1) - 0.5) / 0.5, (160, 160), mode="bilinear", antialias=True)
    torch.testing.assert_close(network.features((pixels - 0.3) / 0.2), net(seen), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("library", ["timm", "torchvision", "own"])
def test_weights_of_a_file(library: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    path, options = tmp_path / "weights.safetensors", {"size": (64, 64)}
    if library == "timm":
        name, source = "timm:test_resnet", timm.create_model("test_resnet")
    elif library == "torchvision":
        name, source = "torchvision:shufflenet_v2_x0_5", models.get_model("shufflenet_v2_x0_5", weights=None)
    else:
        name, source, options = "resnet8", make_network("resnet8", 3).backbone, {}
    save_file({key: value.contiguous() for key, value in source.state_dict().items()}, path)
    network = make_network(name, 3, weights=str(path), **options)
    loaded = network.backbone.state_dict() if library == "own" else network.backbone.net.state_dict()
    assert loaded
    for key, value in loaded.items():
        assert torch.equal(value, source.state_dict()[key]), key


class Surprise:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("surprise"),))


@pytest.mark.promise("An input that changes while it is read is detected", "changes")
def test_weights_that_change_while_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = timm_file(tmp_path)

    def load_late(content: bytes) -> dict[str, torch.Tensor]:
        timm_file(tmp_path, seed=8)
        return load(content)

    monkeypatch.setattr("safetensors.torch.load", load_late)
    with pytest.raises(CannotGoOn, match=r"--weights .* changed while it was read"):
        make_network("timm:test_resnet", 3, weights=str(path))


def test_files_that_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path, _ = timm_file(tmp_path)

    def refused(file: Path | str, backbone: str, message: str) -> None:
        with pytest.raises(EnergyAlignError, match=message):
            make_network(backbone, 3, weights=str(file))

    refused("nowhere.safetensors", "resnet8", r"--weights nowhere\.safetensors is not a file")
    refused(path, "timm:test_convnext", r"do not fit this backbone: it lacks stem\..* and \d+ more; it also has ")
    deeper = tmp_path / "resnet34.safetensors"  # it has all tensors of ResNet-18, in the same shapes
    save_file(models.get_model("resnet34", weights=None).state_dict(), deeper)
    refused(deeper, "torchvision:resnet18", r"it also has layer1\.2\.")
    wider = dict(make_network("resnet8", 3).backbone.state_dict())
    wider["trunk.conv.weight"] = torch.zeros(16, 1, 3, 3)
    save_file({key: value.contiguous() for key, value in wider.items()}, tmp_path / "grey.safetensors")
    refused("grey.safetensors", "resnet8", r"it has another shape for trunk\.conv\.weight")
    path.write_bytes(path.read_bytes()[:1000])
    refused(path, "timm:test_resnet", r"--weights .* is damaged or not a \.safetensors file")
    torch.save({"model": Surprise()}, "code.pth")
    refused("code.pth", "resnet8", r"--weights code.pth must be a \.safetensors file")
    assert not Path("surprise").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("timm:test_resnt", r"timm has [\d,]+ networks, such as .*test_resnet"),
        ("torchvision:", "unknown backbone 'torchvision:'"),
        ("torchvision:fasterrcnn_resnet50_fpn", "unknown backbone"),
        ("torchvision:squeezenet1_0", "does not end in one linear classifier"),
        ("torchvision:googlenet", "does not end in one linear classifier"),
        ("timm:resnet18-bbn", "which is unknown for timm:resnet18"),
        ("timm:resnet18.nope", r"cannot be created \(Invalid pretrained tag"),
    ],
)
@pytest.mark.filterwarnings("ignore:The default weight initialization of GoogleNet")
def test_what_is_no_backbone(name: str, message: str) -> None:
    with pytest.raises(EnergyAlignError, match=message):
        make_network(name, 3)


def test_default_weights_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object, **__: object) -> None:
        raise URLError("no route to host")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr("torch.hub.urlopen", offline)
    remedy = r"default weights of torchvision:resnet18 \(<urlopen error no route to host>\).*--weights PATH"
    with pytest.raises(EnergyAlignError, match=remedy):
        make_network("torchvision:resnet18", 3, weights="default")
    monkeypatch.setattr("timm.create_model", offline)
    with pytest.raises(EnergyAlignError, match="cannot get the default weights of timm:resnet18"):
        make_network("timm:resnet18", 3, weights="default")
    with pytest.raises(EnergyAlignError, match="which resnet18 is not: give --backbone torchvision:NAME"):
        make_network("resnet18", 3, weights="default")


def test_without_timm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "timm", None)
    with pytest.raises(EnergyAlignError, match=r"timm:resnet18 needs timm: pip install 'energyalign\[timm\]'"):
        make_network("timm:resnet18", 3)


def test_a_frozen_backbone_stays_bit_for_bit(tmp_path: Path) -> None:
    path, net = timm_file(tmp_path)
    network = make_network("timm:test_resnet", 3, head="linear", weights=str(path), freeze=True, size=(32, 32)).train()
    assert isinstance(network.backbone, FrozenBackbone)
    optimizer = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9, weight_decay=0.1)
    before = network.head.weight.clone()
    for _ in range(2):
        F.cross_entropy(network(torch.randn(4, 3, 32, 32)), torch.tensor([0, 1, 2, 0])).backward()
        optimizer.step()
    assert not torch.equal(network.head.weight, before)
    for key, value in network.backbone.backbone.net.state_dict().items():
        assert torch.equal(value, net.state_dict()[key]), key
