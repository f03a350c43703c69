"""Shifts into the bias of the head: the same network, nothing more to compute."""

from __future__ import annotations

import warnings

import torch

from energyalign.core.errors import EnergyAlignError
from energyalign.core.shifts import Shifts
from energyalign.pytorch.aligned_model import AlignedModel
from energyalign.pytorch.batches import Batch
from energyalign.pytorch.heads import can_take_bias, find_head
from energyalign.pytorch.inference import undisturbed
from energyalign.pytorch.outputs import flat_logits, logits_of


class NotFolded(EnergyAlignError):
    """The shifts cannot become part of the head's bias; the message says why."""


def fold_shifts(model: torch.nn.Module, shifts: Shifts, probe: Batch, *, head: str | None = None) -> str:
    """Add the shifts to the bias of the model's head, in place, and verify it on a batch.

    A head without bias gets one. Returns the name of the head.

    Raises
    ------
    NotFolded
        If there is no module with a bias that makes the logits, or the logits did not change as they should;
        the model is then as it was.
    """
    with undisturbed(model):
        before = flat_logits(logits_of(probe.call(model))).clone()
        found = find_head(model, probe, head)
    if found is None:
        raise NotFolded("no module of the model makes the logits and has a bias (a functional or scripted head?).")
    name, module = found
    if not can_take_bias(module, shifts.n_classes):
        raise NotFolded(f"module {name!r} ({type(module).__name__}) has no bias with one number per class.")
    old = module._parameters["bias"]
    trainable = any(p.requires_grad for p in module.parameters())
    module.bias = torch.nn.Parameter(_new_bias(module, old, shifts), requires_grad=trainable)
    with undisturbed(model):
        after = flat_logits(logits_of(probe.call(model)))
    wanted = before + torch.tensor(shifts.values, dtype=before.dtype, device=before.device)
    if not torch.allclose(after, wanted, rtol=0.0, atol=_tolerance(wanted)):
        module.bias = old
        raise NotFolded(f"a bias on module {name!r} does not end up in the logits unchanged.")
    return name


def fold_or_wrap(model: torch.nn.Module, shifts: Shifts, probe: Batch, *, head: str | None = None) -> torch.nn.Module:
    """The model with the shifts folded in, or, where that is impossible, in a wrapper; the user is told which."""
    try:
        fold_shifts(model, shifts, probe, head=head)
    except NotFolded as reason:
        if head is not None:
            raise
        warnings.warn(
            f"the shifts were not folded into the network: {reason} An AlignedModel wrapper adds them instead; name "
            "the head with head='...' if it has a bias.",
            stacklevel=3,
        )
        return AlignedModel(model, shifts)
    return model


def _new_bias(head: torch.nn.Module, old: torch.Tensor | None, shifts: Shifts) -> torch.Tensor:
    """Added in float64, so that half precision rounds once."""
    reference = old if old is not None else next(head.parameters())
    total = torch.tensor(shifts.values, dtype=torch.float64)
    if old is not None:
        total = total + old.detach().double().cpu()
    return total.to(dtype=reference.dtype, device=reference.device)


def _tolerance(logits: torch.Tensor) -> float:
    """What adding a number of this size may lose in this precision."""
    return 16.0 * float(torch.finfo(logits.dtype).eps) * max(1.0, float(logits.abs().max()))
