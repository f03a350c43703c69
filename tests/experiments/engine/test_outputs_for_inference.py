"""A network fused for inference: the same outputs, without batch normalisation and trainable parameters."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from energyalign.experiments.engine.outputs import for_inference
from energyalign.experiments.nets.heads import make_head
from energyalign.experiments.nets.network import Network, make_network

torch.set_num_threads(1)


def trained_a_little(backbone: str) -> Network:
    """Change batch statistics, scales and offsets from those of a new network."""
    torch.manual_seed(0)
    network = make_network(backbone, 5)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 2.0)
            nn.init.normal_(module.bias)
    network.train()(images())
    return network.eval()


def images() -> torch.Tensor:
    return torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("backbone", ["resnet8", "resnet8-bbn", "resnet18", "small-cnn", "rps-small"])
def test_it_says_the_same_without_batch_normalisation(backbone: str) -> None:
    """In double precision, where only a mistake exceeds the tolerance."""
    network, shown = trained_a_little(backbone).double(), images().double()
    before = copy.deepcopy(network.state_dict())
    ready = for_inference(network)
    with torch.no_grad():
        torch.testing.assert_close(ready.features(shown), network.features(shown))
        torch.testing.assert_close(ready(shown), network(shown))
    assert not any(isinstance(module, nn.BatchNorm2d) for module in ready.modules())
    assert not any(value.requires_grad for value in ready.parameters())
    torch.testing.assert_close(network.state_dict(), before, rtol=0, atol=0)


def test_equal_weights_give_equal_copies_in_the_same_layout() -> None:
    """A resumed run reads weights from a file, and must have the same teacher as an uninterrupted one."""
    network, read = trained_a_little("resnet8"), make_network("resnet8", 5)
    weights = {name: value.contiguous() for name, value in network.state_dict().items()}
    read.load_state_dict(weights)
    ready, ready_too = for_inference(network), for_inference(read)
    assert torch.equal(ready(images()), ready_too(images()))
    for one in (ready, ready_too):
        kernels = [module.weight for module in one.modules() if isinstance(module, nn.Conv2d)]
        assert all(kernel.is_contiguous(memory_format=torch.channels_last) for kernel in kernels)


class Undecided(nn.Module):
    """Its control flow depends on the input: its convolution is not always normalised."""

    n_features = 4

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    def forward(self, shown: torch.Tensor) -> torch.Tensor:
        maps = self.conv(shown)
        return (self.bn(maps) if maps.mean() > 0 else maps).mean(dim=(2, 3))


class Twice(Undecided):
    """Uses the output of the convolution both with and without batch normalisation."""

    def forward(self, shown: torch.Tensor) -> torch.Tensor:
        maps = self.conv(shown)
        return (self.bn(maps) + maps).mean(dim=(2, 3))


class Shared(Undecided):
    """Uses one convolution twice, only once before batch normalisation."""

    def forward(self, shown: torch.Tensor) -> torch.Tensor:
        return (self.bn(self.conv(shown)) - self.conv(shown).relu()).mean(dim=(2, 3))


@pytest.mark.parametrize("kind", [Undecided, Twice, Shared])
def test_what_cannot_be_folded_stays_as_it_is(kind: type[Undecided]) -> None:
    network = Network(kind(), make_head("linear", 4, 5))
    nn.init.uniform_(network.backbone.bn.weight, 2.0, 3.0)
    network.eval()
    for sign in (1.0, -1.0):
        shown = sign * torch.rand(2, 3, 8, 8)
        torch.testing.assert_close(for_inference(network)(shown), network(shown))
