"""Gradient noise within its context."""

from __future__ import annotations

import pytest
import torch

from energyalign.experiments.train.gradient_noise import GradientNoise


def gradient_of_double(parameter: torch.nn.Parameter) -> torch.Tensor:
    """Return the gradient of 2 x: 2 everywhere, plus the noise."""
    parameter.grad = None
    torch.manual_seed(5)
    (2.0 * parameter).sum().backward()
    assert parameter.grad is not None
    return parameter.grad


@pytest.mark.parametrize(("world_size", "factor"), [(1, 1.0), (4, 2.0)])
def test_noise_has_the_deviation_asked_for_and_comes_from_the_global_generator(world_size: int, factor: float) -> None:
    """With four processes: the average of their noise has half the standard deviation of one."""
    parameter, noise = torch.nn.Parameter(torch.zeros(2, 3)), GradientNoise(world_size)
    noise.std = 0.25
    with noise.on([parameter]):
        found = gradient_of_double(parameter)
    torch.manual_seed(5)
    torch.testing.assert_close(found, 2.0 + 0.25 * factor * torch.randn(2, 3))


def test_the_deviation_can_change_from_batch_to_batch() -> None:
    parameter, noise = torch.nn.Parameter(torch.zeros(4)), GradientNoise()
    with noise.on([parameter]):
        assert gradient_of_double(parameter).tolist() == [2.0] * 4  # none to begin with
        noise.std = 1.0
        once = gradient_of_double(parameter) - 2.0
        noise.std = 3.0
        torch.testing.assert_close(gradient_of_double(parameter) - 2.0, 3.0 * once)


def test_it_ends_with_the_block_even_if_that_breaks_off() -> None:
    parameter, noise = torch.nn.Parameter(torch.zeros(4)), GradientNoise()
    noise.std = 1.0
    with pytest.raises(KeyboardInterrupt), noise.on([parameter]):
        raise KeyboardInterrupt
    assert gradient_of_double(parameter).tolist() == [2.0] * 4
