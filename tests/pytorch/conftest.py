"""Small networks with every kind of head, and a biased problem for them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

N_CLASSES = 4

torch.set_num_threads(1)  # the networks are tiny, and pytest-xdist uses all cores already


class CosineHead(nn.Module):
    """Scaled cosine between features and class weights, with an optional bias after the scale."""

    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_classes, n_features))
        self.register_parameter("bias", None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = 16.0 * F.linear(F.normalize(x), F.normalize(self.weight))
        return logits if self.bias is None else logits + self.bias


class FunctionalHead(nn.Module):
    """A network whose last product is not a module."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(N_CLASSES, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight)


class Output:
    """An output like a Hugging Face model's."""

    def __init__(self, logits: torch.Tensor) -> None:
        self.logits = logits
        self.hidden = "kept"


class NamedInputs(nn.Module):
    """Takes named inputs and returns an object with `.logits`."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = nn.Linear(6, N_CLASSES)

    def forward(self, input_values: torch.Tensor, labels: Any = None) -> Output:
        assert labels is None
        return Output(self.classifier(input_values))


def body() -> list[nn.Module]:
    return [nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5)]


HEADS = {
    "linear": lambda: nn.Sequential(*body(), nn.Linear(8, N_CLASSES)),
    "linear without bias": lambda: nn.Sequential(*body(), nn.Linear(8, N_CLASSES, bias=False)),
    "linear in a block": lambda: nn.Sequential(*body(), nn.Sequential(nn.Linear(8, N_CLASSES), nn.Identity())),
    "1x1 convolution": lambda: nn.Sequential(
        *body(), nn.Unflatten(1, (8, 1, 1)), nn.Conv2d(8, N_CLASSES, 1), nn.Flatten()
    ),
    "map of one pixel": lambda: nn.Sequential(*body(), nn.Unflatten(1, (8, 1, 1)), nn.Conv2d(8, N_CLASSES, 1)),
    "cosine": lambda: nn.Sequential(*body(), CosineHead(8, N_CLASSES)),
}


@pytest.fixture(params=HEADS)
def network(request: pytest.FixtureRequest) -> nn.Module:
    torch.manual_seed(0)
    return HEADS[request.param]().train()


@pytest.fixture
def linear() -> nn.Module:
    torch.manual_seed(0)
    return HEADS["linear"]().train()


@pytest.fixture
def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return forty samples of each class in batches of 32."""
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(160) % N_CLASSES
    inputs = torch.randn(160, 6, generator=generator) + 2.0 * F.one_hot(labels, 6)
    return [(inputs[i : i + 32], labels[i : i + 32]) for i in range(0, 160, 32)]


@pytest.fixture
def functional() -> nn.Module:
    torch.manual_seed(0)
    return FunctionalHead()


@pytest.fixture
def named() -> nn.Module:
    torch.manual_seed(0)
    return NamedInputs()


@pytest.fixture(params=[*HEADS, "functional"])
def any_network(request: pytest.FixtureRequest) -> nn.Module:
    """Return a network with each kind of head, including one that needs the wrapper."""
    torch.manual_seed(0)
    return (HEADS | {"functional": FunctionalHead})[request.param]().train()
