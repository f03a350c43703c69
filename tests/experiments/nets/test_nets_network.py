"""Networks by name, and networks with a frozen backbone."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from energyalign import EnergyAlignError
from energyalign.experiments.nets.heads import grow
from energyalign.experiments.nets.network import FrozenBackbone, Network, make_network
from energyalign.experiments.nets.registry import BACKBONES, HEADS
from energyalign.pytorch import align

N_CLASSES = 5
COUNTS = [500, 100, 40, 10, 4]
QUICK = ["resnet8", "resnet32-bbn", "resnet18", "small-cnn", "rps-small"]  # one of each kind


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randn(10, 3, 32, 32)


def logits_of(network: Network, images: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return copy.deepcopy(network).eval()(images)


@pytest.mark.parametrize("backbone", QUICK)
def test_weights_from_elsewhere_do_not_change_the_layout(backbone: str) -> None:
    """The layout decides the last bits, which must not depend on whether weights were trained here or loaded."""
    network = make_network(backbone, N_CLASSES)
    network.load_state_dict({name: value.contiguous() for name, value in network.state_dict().items()})
    convolutions = [module for module in copy.deepcopy(network).modules() if isinstance(module, torch.nn.Conv2d)]
    assert convolutions
    assert all(module.weight.is_contiguous(memory_format=torch.channels_last) for module in convolutions)


@pytest.mark.parametrize("backbone", [name for name, entry in BACKBONES.items() if not entry.takes_features])
def test_every_backbone_by_its_name(backbone: str, images: torch.Tensor) -> None:
    network = make_network(backbone, N_CLASSES).eval()
    with torch.no_grad():
        features = network.features(images[:2])
        logits = network(images[:2])
        assert torch.equal(logits, network.head(network.backbone(images[:2])))
    assert features.shape == (2, network.backbone.n_features)
    assert features.min() >= 0
    assert logits.shape == (2, N_CLASSES)


@pytest.mark.parametrize("backbone", QUICK)
def test_grey_images(backbone: str, images: torch.Tensor) -> None:
    network = make_network(backbone, N_CLASSES, in_channels=1).eval()
    with torch.no_grad():
        assert network(images[:2, :1]).shape == (2, N_CLASSES)


@pytest.mark.parametrize("backbone", QUICK)
def test_the_seed_decides(backbone: str) -> None:
    def state(seed: int) -> dict[str, torch.Tensor]:
        torch.manual_seed(seed)
        return make_network(backbone, N_CLASSES).state_dict()

    first, again, other = state(1), state(1), state(2)
    assert all(torch.equal(first[name], again[name]) for name in first)
    drawn = [name for name, value in first.items() if value.ndim > 1 and value.is_floating_point()]
    assert drawn
    assert not any(torch.equal(first[name], other[name]) for name in drawn)


@pytest.mark.parametrize("backbone", QUICK)
@pytest.mark.parametrize("head", HEADS)
def test_shifts_fold_into_the_head(backbone: str, head: str, images: torch.Tensor) -> None:
    network = make_network(backbone, N_CLASSES, head=head, learned_scale=True)
    aligned = align(network, [(images, torch.arange(10) % N_CLASSES)], counts=COUNTS, estimator="prior")
    assert type(aligned) is Network
    shifts = torch.tensor(aligned.shifts_.values, dtype=torch.float32)
    assert np.ptp(aligned.shifts_.values) > 1
    wanted = logits_of(network, images) + shifts
    torch.testing.assert_close(logits_of(aligned, images), wanted, rtol=1e-6, atol=1e-5)
    before, after = network.state_dict(), aligned.state_dict()
    changed = {name for name in after if name not in before or not torch.equal(before[name], after[name])}
    assert changed == {"head.bias"}


@pytest.mark.parametrize("head", HEADS)
def test_an_aligned_network_can_grow_and_be_aligned_again(head: str, images: torch.Tensor) -> None:
    """As in class-incremental learning."""
    loader = [(images, torch.arange(10) % N_CLASSES)]
    network = align(make_network("resnet8", N_CLASSES, head=head), loader, counts=COUNTS, estimator="prior")
    old = logits_of(network, images)
    network.head = grow(network.head, N_CLASSES + 3)
    larger = logits_of(network, images)
    torch.testing.assert_close(larger[:, :N_CLASSES], old, rtol=0, atol=1e-5)
    del network.shifts_  # it is another network now
    again = align(network, [(images, torch.arange(10) % 8)], counts=[*COUNTS, 300, 300, 300], estimator="prior")
    shifts = torch.tensor(again.shifts_.values, dtype=torch.float32)
    torch.testing.assert_close(logits_of(again, images), larger + shifts, rtol=0, atol=1e-5)


def test_options_reach_the_head() -> None:
    head = make_network("resnet8", N_CLASSES, scale=30.0, learned_scale=True).head
    assert head.scale == 30.0
    assert head.scale.requires_grad
    assert make_network("resnet8", N_CLASSES, head="linear").head.bias.shape == (N_CLASSES,)


@pytest.mark.parametrize(("backbone", "n_features"), [("identity", 7), ("mlp", 512)])
def test_backbones_of_features(backbone: str, n_features: int) -> None:
    network = make_network(backbone, N_CLASSES, in_channels=7).eval()
    features = torch.randn(4, 7)
    assert network.features(features).shape == (4, n_features)
    assert torch.equal(network.features(features), features) == (backbone == "identity")
    assert network(features).shape == (4, N_CLASSES)


def test_unknown_names_list_the_known_ones() -> None:
    known = (
        "resnet32, resnet8, resnet18, resnet50, resnext50, small-cnn, one of these followed by -bbn for two last "
        r"blocks, rps-small, rps-large, identity, mlp, or any network of a library: timm:NAME, torchvision:NAME\.$"
    )
    with pytest.raises(EnergyAlignError, match=f"unknown backbone 'resnet-32': choose {known}"):
        make_network("resnet-32", N_CLASSES)
    with pytest.raises(EnergyAlignError, match="unknown head 'dot': choose linear, cosine, capsule, causal-norm"):
        make_network("resnet8", N_CLASSES, head="dot")


def test_a_step_of_training_leaves_the_backbone_alone() -> None:
    plain = make_network("small-cnn", 3, head="linear")
    images = torch.randn(4, 3, 8, 8)
    plain(images)  # moves the batch statistics
    expected = plain.eval()(images)
    network = Network(FrozenBackbone(plain.backbone), plain.head).train()
    assert network.head.training
    assert not any(part.training for part in network.backbone.modules())
    before = {name: value.clone() for name, value in network.backbone.state_dict().items()}
    logits = network(images)
    assert torch.equal(logits, expected)
    logits.sum().backward()
    assert [name for name, value in network.named_parameters() if value.grad is not None] == [
        "head.weight",
        "head.bias",
    ]
    assert all(torch.equal(value, before[name]) for name, value in network.backbone.state_dict().items())
