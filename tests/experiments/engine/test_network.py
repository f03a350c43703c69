"""Networks of libraries, made for the images of a run."""

from __future__ import annotations

import pytest
import torch
from tiny_setting import tiny_setting

from energyalign import EnergyAlignError
from energyalign.experiments.data.loader import evaluation_batches
from energyalign.experiments.engine.outputs import for_inference
from energyalign.experiments.engine.trained import network_for, refuse_negative_features
from energyalign.experiments.longtail.learners import CrossEntropy
from energyalign.experiments.nets.network import make_network


@pytest.mark.parametrize("channels", [1, 3])
def test_the_network_sees_pixels_as_its_library_normalises_them(channels: int) -> None:
    setting = tiny_setting(CrossEntropy(), channels=channels, backbone="timm:test_resnet")
    network = network_for(setting.config, setting.train, 3).eval()
    pixels = setting.train.images.float().expand(-1, 3, -1, -1) / 255
    shown = next(evaluation_batches(setting.train, batch_size=len(pixels))).images
    torch.testing.assert_close(
        network.features(shown), network.backbone.net((pixels - 0.5) / 0.5), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("backbone", ["timm:test_resnet", "timm:test_vit", "torchvision:mobilenet_v3_small"])
def test_made_ready_for_inference_it_says_the_same(backbone: str) -> None:
    torch.manual_seed(0)
    network = make_network(backbone, 3, in_channels=1, size=(32, 32), mean=(0.1,), std=(0.3,))
    images = torch.randn(4, 1, 32, 32)
    network.train()(images)  # moves batch statistics
    network, images = network.double().eval(), images.double()
    with torch.no_grad():
        torch.testing.assert_close(for_inference(network)(images), network(images))


def test_negative_features_are_found() -> None:
    setting = tiny_setting(CrossEntropy())
    relu = make_network("small-cnn", 3)
    refuse_negative_features(relu, setting.train, "it needs none")
    with pytest.raises(EnergyAlignError, match=r"it needs none, and this backbone has negative ones .*ends in a ReLU"):
        refuse_negative_features(make_network("timm:test_vit", 3, size=(8, 8)), setting.train, "it needs none")
