"""Fold shifts into the bias of the head, at no cost at inference; or wrap the model if that is impossible."""

from __future__ import annotations

import warnings
from typing import Any, TypeAlias

import torch

from energyalign.core.arrays import Floats
from energyalign.core.errors import EnergyAlignError
from energyalign.core.heads import in_form_of, is_one_logit, n_columns, to_rows
from energyalign.core.multilabel import MultilabelShifts
from energyalign.core.shifts import Shifts
from energyalign.pytorch.batches import ModelBatch, device_of, open_batch
from energyalign.pytorch.heads import can_take_bias, find_heads
from energyalign.pytorch.inference import plain_network, undisturbed
from energyalign.pytorch.outputs import logits_of, with_logits

AnyShifts: TypeAlias = Shifts | MultilabelShifts
_FAR = 1000.0


class NotFolded(EnergyAlignError):
    """The shifts cannot be folded into the bias of the head; the message says why."""


def fold_shifts(model: torch.nn.Module, shifts: AnyShifts, batch: Any, *, head: str | None = None) -> str:
    """Add the shifts to the bias of the model's head, in place, and verify the logits.

    A head without a bias gets one.

    Parameters
    ----------
    model : torch.nn.Module
    shifts : Shifts or MultilabelShifts
        For example ``Shifts.load("shifts.json")``.
    batch
        Inputs as a loader yields them, to find the head and to verify the result.
    head : str, default=None
        Name of the module that computes the logits; by default it is searched for.

    Returns
    -------
    str
        Name of the head.

    Raises
    ------
    NotFolded
        If no module with a bias computes the logits, or if verification fails. The model is unchanged then.
    """
    network = plain_network(model)
    refuse_aligned(network)
    name = fold_into_head(network, shifts, open_batch(batch, device_of(model)), head)
    network.shifts_ = shifts
    return name


def refuse_aligned(network: torch.nn.Module) -> None:
    """Raise if the network is aligned already: shifts added twice would reverse the bias."""
    if hasattr(network, "shifts_"):
        raise EnergyAlignError(
            "the model is already aligned (it has shifts_): start from the raw network. If it was trained further "
            "since, `del model.shifts_` first."
        )


def fold_or_wrap(
    model: torch.nn.Module, shifts: AnyShifts, probe: ModelBatch, *, head: str | None = None
) -> torch.nn.Module:
    """Fold the shifts into the model and return it; if that is impossible, warn and return a wrapper."""
    try:
        fold_into_head(plain_network(model), shifts, probe, head)
    except NotFolded as reason:
        if head is not None:
            raise
        warnings.warn(
            f"the shifts were not folded into the network: {reason} An AlignedModel wrapper adds them instead. If the "
            "head has a bias, give its name with head='...'.",
            stacklevel=3,
        )
        return AlignedModel(model, shifts)
    return model


def fold_into_head(network: torch.nn.Module, shifts: AnyShifts, probe: ModelBatch, head: str | None) -> str:
    """Fold into the first head that passes verification, and return its name; if none passes, change nothing."""
    with undisturbed(network):
        shape = tuple(logits_of(probe.call(network)).shape)
        heads = find_heads(network, probe, head)
    if shifts.n_classes != n_columns(shape) and not is_one_logit(shape, shifts.n_classes):
        raise EnergyAlignError(
            f"the shifts are for {shifts.n_classes} classes, but the model has {n_columns(shape)}: give its own shifts."
        )
    added = shifts.columns_for(shape)
    reason = NotFolded("no module with a bias computes the logits (a functional or scripted head?).")
    for name, module in heads:
        try:
            _fold_into(network, name, module, added, probe)
        except NotFolded as error:
            reason = error
        else:
            return name
    raise reason


def _fold_into(network: torch.nn.Module, name: str, module: torch.nn.Module, added: Floats, probe: ModelBatch) -> None:
    if not can_take_bias(module, len(added)):
        raise NotFolded(f"module {name!r} ({type(module).__name__}) has no bias with one number per class.")
    _refuse_tied(network, name, module)
    old = None if module.bias is None else module.bias.detach().clone()
    before = _Run(network, name, module, probe)
    try:
        # Try large offsets first: a clamp or a ReLU after the head may leave the probe's own logits unchanged.
        for offset in (-_FAR, _FAR, 0.0):
            bias = _new_bias(module, old, added + offset)
            _set_bias(module, bias)
            if not before.followed_by(_Run(network, name, module, probe), added + offset, bias):
                raise NotFolded(f"a bias on module {name!r} does not reach the logits unchanged.")
    except BaseException:  # also on Ctrl-C: undo the trial
        _set_bias(module, old)
        raise
    if old is None and hasattr(network, "from_pretrained"):
        warnings.warn(
            f"head {name!r} of this model had no bias and has one now, which `from_pretrained` will drop: save the "
            "shifts with aligned.shifts_.save(...), and use fold_shifts on the loaded model.",
            stacklevel=5,
        )


class _Run:
    """Logits of the probe, and the coarsest precision on their way."""

    def __init__(self, network: torch.nn.Module, name: str, head: torch.nn.Module, probe: ModelBatch) -> None:
        precisions: list[float] = []
        hook = head.register_forward_hook(lambda _m, _i, output: precisions.append(_precision(output)))
        try:
            with undisturbed(network):
                logits = to_rows(logits_of(probe.call(network)))
        except EnergyAlignError:
            raise
        except Exception as error:
            raise NotFolded(
                f"the model does not run with a bias of one number per class on module {name!r} ({error})."
            ) from error
        finally:
            hook.remove()
        self.logits = logits.double()
        # float32 logits may have been bfloat16 before: a head in half precision, or autocast inside the model.
        self.precision = max(_precision(logits), *precisions, _precision_of_sum(head, logits))

    def followed_by(self, after: _Run, added: Floats, bias: torch.Tensor) -> bool:
        """Return whether `after` has these logits plus `added`, up to rounding of each number: some may be huge."""
        expected = self.logits + torch.tensor(added, dtype=torch.float64, device=self.logits.device)
        terms = [self.logits, expected, bias.detach().double().expand_as(expected)]
        size = torch.stack([term.abs() for term in terms]).amax(0)
        allowed = 16.0 * max(self.precision, after.precision) * size.clamp(min=1.0)
        return bool(((after.logits - expected).abs().le(allowed) | (after.logits == expected)).all())  # -inf == -inf


def _precision(output: Any) -> float:
    known = isinstance(output, torch.Tensor) and output.is_floating_point()
    return float(torch.finfo(output.dtype).eps) if known else 0.0


def _precision_of_sum(head: torch.nn.Module, logits: torch.Tensor) -> float:
    """Return the relative rounding error of a head's sum: n terms of random sign are about √n times their sum."""
    n_added = sum(values.numel() for name, values in head.named_parameters() if name != "bias") / logits.shape[1]
    return float(min(_precision(logits), torch.finfo(torch.float32).eps) * n_added**0.5)


def _refuse_tied(network: torch.nn.Module, name: str, head: torch.nn.Module) -> None:
    """Raise if another module shares the bias and would get the shifts too."""
    bias = head._parameters["bias"]
    for other_name, other in network.named_modules():
        if bias is not None and other is not head and any(p is bias for p in other.parameters(recurse=False)):
            raise NotFolded(f"the bias of module {name!r} is tied to one of module {other_name!r}.")


def _set_bias(head: torch.nn.Module, values: torch.Tensor | None) -> None:
    """Set the bias; in place if there is one, so that references to it (of an optimiser, say) stay valid."""
    if values is None or head.bias is None:
        trainable = any(p.requires_grad for p in head.parameters())
        head.bias = None if values is None else torch.nn.Parameter(values, requires_grad=trainable)
        return
    with torch.no_grad():
        head.bias.copy_(values)
    torch.clear_autocast_cache()  # it may hold a rounded copy of the old bias


def _new_bias(head: torch.nn.Module, old: torch.Tensor | None, added: Floats) -> torch.Tensor:
    """Return the sum of bias and shifts, computed in float64, so that half precision rounds once."""
    reference = old if old is not None else next(head.parameters())
    total = torch.tensor(added, dtype=torch.float64)
    if old is not None:
        total = total + old.double().cpu()
    return total.to(dtype=reference.dtype, device=reference.device)


class AlignedModel(torch.nn.Module):  # type: ignore[misc]
    """A wrapper that adds shifts to the logits of a model.

    The shifts are a buffer, so that `state_dict`, `.to` and export include them.

    Parameters
    ----------
    model : torch.nn.Module
    shifts : Shifts or MultilabelShifts
    """

    shifts: torch.Tensor

    def __init__(self, model: torch.nn.Module, shifts: AnyShifts) -> None:
        super().__init__()
        self.model = model
        # float32 for every model: its head may be more precise than its body.
        self.register_buffer("shifts", torch.tensor(shifts.values, dtype=torch.float32, device=device_of(model)))

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Return the output of the model with aligned logits."""
        output = self.model(*inputs, **named)
        logits = logits_of(output)
        shifts = self.shifts.to(logits.dtype)
        if is_one_logit(tuple(logits.shape), len(shifts)):
            shifts = shifts[1:] - shifts[:1]
        return with_logits(output, logits + in_form_of(shifts, logits.ndim))
