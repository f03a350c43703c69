"""Backbones of torchvision: theirs without the head, and never pre-trained."""

from __future__ import annotations

import sys
import urllib.request

import pytest
import torch
from torchvision import models

from energyalign import EnergyAlignError
from energyalign.experiments.nets.backbones import torchvision_resnet

N_FEATURES = {"resnet18": 512, "resnet50": 2048, "resnext50_32x4d": 2048}


@pytest.mark.parametrize("name", N_FEATURES)
def test_it_is_the_network_of_torchvision_without_its_head(name: str) -> None:
    torch.manual_seed(0)
    backbone = torchvision_resnet(name).eval()
    torch.manual_seed(0)
    whole = models.get_model(name).eval()
    n_of_head = N_FEATURES[name] * 1000 + 1000
    n_backbone, n_whole = (sum(p.numel() for p in net.parameters()) for net in (backbone, whole))
    assert n_backbone == n_whole - n_of_head
    assert backbone.n_features == N_FEATURES[name]
    images = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        features = backbone(images)
        torch.testing.assert_close(whole.fc(features), whole(images))
    assert features.shape == (1, N_FEATURES[name])
    assert features.min() >= 0


def test_nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("asked for the network")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", refuse)
    torchvision_resnet("resnet18")


def test_grey_images() -> None:
    backbone = torchvision_resnet("resnet18", in_channels=1).eval()
    with torch.no_grad():
        assert backbone(torch.randn(1, 1, 64, 64)).shape == (1, 512)
    fan_out = 64 * 49
    assert backbone.conv1.weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.1)


def test_without_torchvision_the_user_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(EnergyAlignError, match=r"resnet50 needs torchvision.*pip install 'energyalign\[experiments\]'"):
        torchvision_resnet("resnet50")
