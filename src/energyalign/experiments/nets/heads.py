"""Heads: from features to logits, one weight vector per class; they can grow when new classes come."""

from __future__ import annotations

import copy
from typing import TypeAlias

import torch
from torch import nn

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.nets.normalised import fresh_rows
from energyalign.experiments.nets.registry import DEFAULT_SCALE, HEADS, check_head

LinearHead: TypeAlias = nn.Linear


def make_head(
    name: str, n_features: int, n_classes: int, *, scale: float = DEFAULT_SCALE, learned_scale: bool = False
) -> nn.Module:
    """The head of that name, its weights drawn from torch's global generator.

    `scale` and `learned_scale` are those of a `NormalisedHead` and concern no other.
    """
    check_head(name)
    if n_classes < 1:
        raise EnergyAlignError(f"a head needs at least one class, not {n_classes}.")
    return HEADS[name].make(n_features, n_classes, scale=scale, learned_scale=learned_scale)


def grown(head: nn.Module, n_classes: int) -> nn.Module:
    """A head with more classes, whose numbers for the old ones are those of `head`, bit for bit.

    Weights of new classes are drawn as those of a fresh head; where there is a bias it is zero for them, so that
    nothing but their weights speaks for or against them. The scale, learned or not, stays.

    Parameters
    ----------
    head : LinearHead or NormalisedHead
        Is left as it is.
    n_classes : int
        Old and new classes together.
    """
    n_new = n_classes - head.out_features
    if n_new < 1:
        raise EnergyAlignError(f"a head of {head.out_features} classes cannot grow to {n_classes}: give more classes.")
    larger = copy.deepcopy(head)
    larger.out_features = n_classes
    larger.weight = _extended(head.weight, fresh_rows(n_new, head.in_features))
    if head.bias is not None:
        larger.bias = _extended(head.bias, torch.zeros(n_new))
    return larger


def _extended(old: nn.Parameter, new: torch.Tensor) -> nn.Parameter:
    """Rows below rows; on the device, in the precision and as trainable as the old ones."""
    return nn.Parameter(torch.cat([old.detach(), new.to(old)]), requires_grad=old.requires_grad)
