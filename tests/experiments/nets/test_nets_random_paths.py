"""Random paths: active modules are added, others have no effect, and former paths stay unchanged."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from energyalign import EnergyAlignError
from energyalign.experiments.nets.backbones import PaddedShortcut, Trunk, average_over_pixels, torchvision_resnet
from energyalign.experiments.nets.network import make_network
from energyalign.experiments.nets.random_paths import LARGE, SMALL, Level, RandomPaths

TINY = (4, 4, 8)


@pytest.fixture
def net() -> RandomPaths:
    return RandomPaths(TINY, in_channels=1, n_modules=3)


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randn(5, 1, 8, 8)


def moved(net: RandomPaths, images: torch.Tensor) -> dict[str, torch.Tensor]:
    """Take a training step on all trainable parameters; return the names of changed tensors."""
    before = copy.deepcopy(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    net.train()
    optimizer.zero_grad()
    net(images).square().sum().backward()
    optimizer.step()
    return {name: value for name, value in net.state_dict().items() if not torch.equal(value, before[name])}


def modules_of(names: object) -> set[tuple[int, int]]:
    """Return level and number of the modules with these names in a state dict."""
    parts = [str(name).split(".") for name in names]  # type: ignore[attr-defined]
    assert all(part[0] == "levels" and part[2] == "parallel" for part in parts)
    return {(int(part[1]), int(part[3])) for part in parts}


def copied_in_order(source: list[nn.Module], target: nn.Module) -> None:
    """Copy weights and batch statistics of these modules, in order, into a network with other names."""
    values = [value for module in source for value in module.state_dict().values()]
    names = list(target.state_dict())
    assert len(values) == len(names)
    target.load_state_dict(dict(zip(names, values, strict=True)))


def after_some_batches(net: RandomPaths, images: torch.Tensor) -> RandomPaths:
    """Update the batch statistics by some batches."""
    net.train()
    with torch.no_grad():
        net(images)
    return net.eval()


def test_a_level_adds_its_active_modules_and_the_way_around() -> None:
    """By hand: factors 2, 3 and -7, applied to 1 and -1."""
    factors = iter([2.0, 3.0, -7.0])

    def times() -> nn.Module:
        module = nn.Linear(1, 1, bias=False)
        nn.init.constant_(module.weight, next(factors))
        return module

    level = Level(3, times, nn.Identity())
    values = torch.tensor([[1.0], [-1.0]])
    assert level(values, [True, False, False]).tolist() == [[3.0], [0.0]]
    assert level(values, [True, True, False]).tolist() == [[6.0], [0.0]]
    assert level(values, [True, True, True]).tolist() == [[0.0], [1.0]]
    level.shortcut = None
    assert level(values, [False, True, False]).tolist() == [[3.0], [0.0]]


def test_two_paths_by_hand(net: RandomPaths, images: torch.Tensor) -> None:
    net.add_path((2, 0, 1))
    net = after_some_batches(net, images)
    conv1, conv2, conv3 = (level.parallel for level in net.levels)
    with torch.no_grad():
        one = F.relu(conv1[0](images) + conv1[2](images))
        two = F.relu(one + conv2[0](one))
        around = torch.cat([torch.zeros(5, 2, 4, 4), two[:, :, ::2, ::2], torch.zeros(5, 2, 4, 4)], dim=1)
        three = F.relu(around + conv3[0](two) + conv3[1](two))
        torch.testing.assert_close(net(images), three.sum(dim=(2, 3)) / 16)


def test_one_path_is_a_resnet_for_small_images() -> None:
    images = torch.randn(4, 3, 32, 32)
    net = after_some_batches(RandomPaths(SMALL), images)
    plain = Trunk((2, 3, 3), in_channels=3).eval()
    copied_in_order([level.parallel[0] for level in net.levels], plain)
    with torch.no_grad():
        torch.testing.assert_close(net(images), average_over_pixels(plain(images)))


def test_one_path_is_a_resnet_18_for_photographs() -> None:
    images = torch.randn(2, 3, 64, 64)
    net = after_some_batches(RandomPaths(LARGE, n_modules=1, photographs=True), images)
    plain = torchvision_resnet("resnet18").eval()
    for n_channels, stage in ((64, plain.layer2), (128, plain.layer3), (256, plain.layer4)):
        stage[0].downsample = PaddedShortcut(n_channels, 2 * n_channels)
    copied_in_order([level.parallel[0] for level in net.levels], plain)
    with torch.no_grad():
        torch.testing.assert_close(net(images), plain(images))


def test_photographs_are_made_small_before_the_second_level() -> None:
    net = RandomPaths(LARGE, n_modules=1, photographs=True).eval()
    sizes: list[tuple[int, ...]] = []
    for level in net.levels:
        level.register_forward_hook(lambda _level, _inputs, output: sizes.append(tuple(output.shape[1:])))
    with torch.no_grad():
        assert net(torch.randn(1, 3, 224, 224)).shape == (1, 512)
    assert [size[0] for size in sizes] == list(LARGE)
    assert [size[1] for size in sizes] == [112, 56, 56, 28, 28, 14, 14, 7, 7]


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (1, 28, 28), (3, 9, 7)])
def test_small_images_of_any_size(shape: tuple[int, ...]) -> None:
    net = RandomPaths(SMALL, in_channels=shape[0]).eval()
    with torch.no_grad():
        features = net(torch.randn(2, *shape))
    assert features.shape == (2, net.n_features) == (2, 64)


def test_what_is_not_active_changes_nothing(net: RandomPaths, images: torch.Tensor) -> None:
    net.add_path((2, 0, 1))
    net.eval()
    with torch.no_grad():
        before = net(images)
        for at, number in ((0, 1), (1, 1), (1, 2), (2, 2)):
            for parameter in net.levels[at].parallel[number].parameters():
                parameter.fill_(torch.nan)
        assert torch.equal(net(images), before)
        net.levels[0].parallel[2][0].weight.add_(1.0)
        assert not torch.equal(net(images), before)


def test_the_first_path_learns_whole(net: RandomPaths, images: torch.Tensor) -> None:
    assert modules_of(moved(net, images)) == {(0, 0), (1, 0), (2, 0)}


def test_only_new_modules_of_the_newest_path_learn(net: RandomPaths, images: torch.Tensor) -> None:
    net.add_path((2, 0, 1))
    assert modules_of(name for name, value in net.named_parameters() if value.requires_grad) == {(0, 2), (2, 1)}
    changed = moved(net, images)
    assert modules_of(changed) == {(0, 2), (2, 1)}
    assert any(name.endswith("running_mean") for name in changed)
    net.add_path((2, 1, 1))
    assert modules_of(moved(net, images)) == {(1, 1)}
    net.add_path((0, 0, 0))
    net.train()
    assert not net(images).requires_grad


def test_modes(net: RandomPaths) -> None:
    net.train()
    net.add_path((1, 0, 1))
    learning = {(0, 1), (2, 1)}

    def in_training() -> set[tuple[int, int]]:
        parts = [(number, level.parallel) for number, level in enumerate(net.levels)]
        return {(at, i) for at, parallel in parts for i, module in enumerate(parallel) if module[1].training}

    assert in_training() == learning
    net.eval()
    assert in_training() == set()
    net.add_path((2, 0, 2))
    assert in_training() == set()
    net.train()
    assert in_training() == {(0, 2), (2, 2)}


def test_a_teacher_stays_without_gradients(net: RandomPaths) -> None:
    net.requires_grad_(False).eval()
    assert not any(parameter.requires_grad for parameter in net.parameters())


def test_the_state_knows_the_paths(images: torch.Tensor) -> None:
    """The state is loaded into a network, as from a checkpoint."""

    def network() -> nn.Module:
        made = make_network("rps-small", 3, in_channels=1)
        return made.train()

    first, second = network(), network()
    first.backbone.add_path((3, 0, 1, 0, 7, 0, 2, 0, 0))
    untouched = copy.deepcopy(second)
    second.load_state_dict(first.state_dict())
    assert torch.equal(first.eval()(images), second.eval()(images))
    learns = [{name for name, value in net.named_parameters() if value.requires_grad} for net in (first, second)]
    assert learns[0] == learns[1]
    assert modules_of(name.removeprefix("backbone.") for name in learns[1] if "head" not in name) == {
        (0, 3), (2, 1), (4, 7), (6, 2),
    }  # fmt: skip
    second.train()
    assert second.backbone.levels[0].parallel[3].training
    assert not second.backbone.levels[0].parallel[0].training
    assert untouched.backbone.levels[0].parallel[0][0].weight.requires_grad


def test_a_copy_that_loads_a_state_leaves_the_original_alone(net: RandomPaths) -> None:
    twin, other = copy.deepcopy(net), copy.deepcopy(net)
    other.add_path((1, 1, 1))
    twin.load_state_dict(other.state_dict())
    assert not twin.levels[0].parallel[0][0].weight.requires_grad
    assert net.levels[0].parallel[0][0].weight.requires_grad


def test_random_paths_come_from_the_generator() -> None:
    net = RandomPaths(TINY, n_modules=3)
    paths = [net.random_path(np.random.default_rng(4)) for _ in range(2)]
    assert paths[0] == paths[1]
    random = np.random.default_rng(0)
    drawn = np.array([net.random_path(random) for _ in range(600)])
    assert drawn.shape == (600, 3)
    for level in drawn.T:  # 200 of each are expected; 5 standard deviations are 58
        assert np.abs(np.bincount(level, minlength=3) - 200).max() < 58
    pairs = np.bincount(3 * drawn[:, 0] + drawn[:, 1], minlength=9)  # 67 each: levels are drawn on their own
    assert np.abs(pairs - 600 / 9).max() < 39


@pytest.mark.parametrize("path", [(0, 0), (0, 0, 3), (0, -1, 0), (0, 0, 0, 0)])
def test_a_path_that_is_none_is_refused(net: RandomPaths, path: tuple[int, ...]) -> None:
    before = net.active.clone()
    with pytest.raises(EnergyAlignError, match="a path must have 3 numbers from 0 to 2, one per level, got"):
        net.add_path(path)
    assert torch.equal(net.active, before)


def test_a_level_without_modules_is_refused() -> None:
    with pytest.raises(EnergyAlignError, match="n_modules must be >= 1, got 0"):
        RandomPaths(TINY, n_modules=0)
