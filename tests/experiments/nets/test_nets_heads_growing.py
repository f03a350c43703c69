"""Heads that get new classes: nothing changes for the old ones."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from energyalign import EnergyAlignError
from energyalign.experiments.nets.heads import CosineHead, grow, make_head
from energyalign.experiments.nets.registry import HEADS

N_OLD, N_ALL = 5, 8


def cosine_with_bias() -> nn.Module:
    """Return a cosine head with a bias, as after folding shifts."""
    head = CosineHead(6, N_OLD, scale=3.0, learned_scale=True)
    head.bias = nn.Parameter(torch.randn(N_OLD))
    return head


KINDS = {
    "linear": lambda: make_head("linear", 6, N_OLD),
    "linear without bias": lambda: nn.Linear(6, N_OLD, bias=False),
    "cosine": lambda: make_head("cosine", 6, N_OLD, scale=3.0),
    "cosine with bias and learned scale": cosine_with_bias,
    "capsule": lambda: make_head("capsule", 6, N_OLD, scale=3.0),
    "causal-norm": lambda: make_head("causal-norm", 6, N_OLD, scale=3.0),
}


@pytest.fixture(params=KINDS)
def head(request: pytest.FixtureRequest) -> nn.Module:
    return KINDS[request.param]()


def test_old_rows_stay_bit_for_bit_and_so_do_old_logits(head: nn.Module) -> None:
    features = torch.randn(20, 6)
    larger = grow(head, N_ALL)
    assert torch.equal(larger.weight[:N_OLD], head.weight)
    logits = larger(features)
    assert logits.shape == (20, N_ALL)
    torch.testing.assert_close(logits[:, :N_OLD], head(features), rtol=0, atol=1e-6)  # up to the order of sums
    for name, value in head.state_dict().items():
        after = larger.state_dict()[name]
        assert torch.equal(after[: len(value)] if value.ndim else after, value)


def test_new_biases_are_zero_and_none_appears(head: nn.Module) -> None:
    larger = grow(head, N_ALL)
    if head.bias is None:
        assert larger.bias is None
    else:
        assert torch.equal(larger.bias[:N_OLD], head.bias)
        assert torch.equal(larger.bias[N_OLD:], torch.zeros(N_ALL - N_OLD))


def test_the_head_given_stays_as_it_is_and_shares_nothing(head: nn.Module) -> None:
    before = {name: value.clone() for name, value in head.state_dict().items()}
    larger = grow(head, N_ALL)
    with torch.no_grad():
        for parameter in larger.parameters():
            parameter.add_(1.0)
    assert head.out_features == N_OLD
    for name, value in head.state_dict().items():
        assert torch.equal(value, before[name])


@pytest.mark.parametrize("name", HEADS)
def test_new_rows_are_drawn_as_those_of_a_fresh_head(name: str) -> None:
    head = make_head(name, 64, N_OLD)
    torch.manual_seed(3)
    larger = grow(head, N_OLD + 100)
    torch.manual_seed(3)
    fresh = make_head(name, 64, 100)
    torch.testing.assert_close(larger.weight[N_OLD:], fresh.weight)
    assert larger.weight[N_OLD:].abs().max() <= 1 / math.sqrt(64)


def test_the_grown_head_trains_as_the_old_one_did(head: nn.Module) -> None:
    larger = grow(head, N_ALL)
    assert type(larger) is type(head)
    assert {n for n, p in larger.named_parameters() if p.requires_grad} == {n for n, _ in head.named_parameters()}
    larger(torch.randn(4, 6)).logsumexp(1).sum().backward()
    assert all(p.is_leaf and p.grad is not None for p in larger.parameters())
    frozen = grow(head.requires_grad_(False), N_ALL)
    assert not any(p.requires_grad for p in frozen.parameters())


def test_precision_is_kept(head: nn.Module) -> None:
    assert {p.dtype for p in grow(head.to(torch.bfloat16), N_ALL).parameters()} == {torch.bfloat16}


def test_growing_twice(head: nn.Module) -> None:
    twice = grow(grow(head, N_ALL), N_ALL + 2)
    assert twice.out_features == len(twice.weight) == N_ALL + 2
    assert torch.equal(twice.weight[:N_OLD], head.weight)


@pytest.mark.parametrize("n_classes", [N_OLD, N_OLD - 1, 0])
def test_a_head_does_not_shrink(head: nn.Module, n_classes: int) -> None:
    with pytest.raises(EnergyAlignError, match=f"head of 5 classes cannot grow to {n_classes}"):
        grow(head, n_classes)
