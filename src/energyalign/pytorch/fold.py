"""Shifts into the bias of the head, the same network with nothing more to compute; or a wrapper where that fails."""

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
    """The shifts cannot become part of the head's bias; the message says why."""


def fold_shifts(model: torch.nn.Module, shifts: AnyShifts, batch: Any, *, head: str | None = None) -> str:
    """Add the shifts to the bias of the model's head, in place, and verify it.

    A head without bias gets one.

    Parameters
    ----------
    model : torch.nn.Module
    shifts : Shifts or MultilabelShifts
        For example ``Shifts.load("shifts.json")``.
    batch
        Inputs as a loader would yield them, to find the head and to verify the result.
    head : str, optional
        Name of the module that makes the logits, if it is not found by itself.

    Returns
    -------
    str
        The name of the head.

    Raises
    ------
    NotFolded
        If there is no module with a bias that makes the logits, or the logits did not change as they should;
        the model is then as it was.
    """
    network = plain_network(model)
    refuse_aligned(network)
    name = fold_into_head(network, shifts, open_batch(batch, device_of(model)), head)
    network.shifts_ = shifts
    return name


def refuse_aligned(network: torch.nn.Module) -> None:
    """Shifts added a second time would turn the bias around."""
    if hasattr(network, "shifts_"):
        raise EnergyAlignError(
            "the model is aligned already (its shifts_ say by how much): start from the network as it was trained. If "
            "it was trained on since, `del model.shifts_` first."
        )


def fold_or_wrap(
    model: torch.nn.Module, shifts: AnyShifts, probe: ModelBatch, *, head: str | None = None
) -> torch.nn.Module:
    """The model with the shifts folded in, or, where that is impossible, in a wrapper; the user is told which."""
    try:
        fold_into_head(plain_network(model), shifts, probe, head)
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


def fold_into_head(network: torch.nn.Module, shifts: AnyShifts, probe: ModelBatch, head: str | None) -> str:
    """Fold into the first head for which the logits follow on the probe; the network is as it was if there is none."""
    with undisturbed(network):
        shape = tuple(logits_of(probe.call(network)).shape)
        heads = find_heads(network, probe, head)
    if shifts.n_classes != n_columns(shape) and not is_one_logit(shape, shifts.n_classes):
        raise EnergyAlignError(f"the shifts are for {shifts.n_classes} classes, the model has {n_columns(shape)}.")
    added = shifts.columns_for(shape)
    reason = NotFolded("no module of the model makes the logits and has a bias (a functional or scripted head?).")
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
        # Far to either side first: a clamp or a ReLU behind the head may touch none of the probe's logits as they are.
        for distance in (-_FAR, _FAR, 0.0):
            bias = _new_bias(module, old, added + distance)
            _set_bias(module, bias)
            if not before.followed_by(_Run(network, name, module, probe), added + distance, bias):
                raise NotFolded(f"a bias on module {name!r} does not end up in the logits unchanged.")
    except BaseException:  # Ctrl-C too must not leave a trial in the network
        _set_bias(module, old)
        raise
    if old is None and hasattr(network, "from_pretrained"):
        warnings.warn(
            f"head {name!r} of this model had no bias and has one now. `from_pretrained` will build the head without "
            "it and drop it: keep aligned.shifts_.save(...), and use fold_shifts on the loaded model.",
            stacklevel=5,
        )


class _Run:
    """Logits of the probe, and the coarsest precision that they went through."""

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
        # Logits in float32 may have been bfloat16 on the way: a head in half precision, or autocast inside the model.
        self.precision = max(_precision(logits), *precisions, _precision_of_sum(head, logits))

    def followed_by(self, after: _Run, added: Floats, bias: torch.Tensor) -> bool:
        """Whether the logits after are these plus `added`, but for rounding; number by number, for some may be huge."""
        wanted = self.logits + torch.tensor(added, dtype=torch.float64, device=self.logits.device)
        size = torch.stack([self.logits.abs(), wanted.abs(), bias.detach().double().abs().expand_as(wanted)]).amax(0)
        allowed = 16.0 * max(self.precision, after.precision) * size.clamp(min=1.0)
        return bool(((after.logits - wanted).abs().le(allowed) | (after.logits == wanted)).all())  # -inf equals -inf


def _precision(output: Any) -> float:
    known = isinstance(output, torch.Tensor) and output.is_floating_point()
    return float(torch.finfo(output.dtype).eps) if known else 0.0


def _precision_of_sum(head: torch.nn.Module, logits: torch.Tensor) -> float:
    """A head adds up numbers of either sign, in float32 or finer: n of them are some √n times as large as their sum."""
    n_added = sum(values.numel() for name, values in head.named_parameters() if name != "bias") / logits.shape[1]
    return float(min(_precision(logits), torch.finfo(torch.float32).eps) * n_added**0.5)


def _refuse_tied(network: torch.nn.Module, name: str, head: torch.nn.Module) -> None:
    """A bias that another module uses too would carry the shifts there."""
    bias = head._parameters["bias"]
    for other_name, other in network.named_modules():
        if bias is not None and other is not head and any(p is bias for p in other.parameters(recurse=False)):
            raise NotFolded(f"the bias of module {name!r} is tied to one of module {other_name!r}.")


def _set_bias(head: torch.nn.Module, values: torch.Tensor | None) -> None:
    """In place where there is a parameter, so that whoever holds it (an optimiser, say) still holds the right one."""
    if values is None or head.bias is None:
        trainable = any(p.requires_grad for p in head.parameters())
        head.bias = None if values is None else torch.nn.Parameter(values, requires_grad=trainable)
        return
    with torch.no_grad():
        head.bias.copy_(values)
    torch.clear_autocast_cache()  # it may hold a rounded copy of the old values


def _new_bias(head: torch.nn.Module, old: torch.Tensor | None, added: Floats) -> torch.Tensor:
    """Added in float64, so that half precision rounds once."""
    reference = old if old is not None else next(head.parameters())
    total = torch.tensor(added, dtype=torch.float64)
    if old is not None:
        total = total + old.double().cpu()
    return total.to(dtype=reference.dtype, device=reference.device)


class AlignedModel(torch.nn.Module):  # type: ignore[misc]
    """A model whose logits come out with the shifts added.

    An ordinary module: the shifts are a buffer, so that `state_dict`, `.to` and export take them along.

    Parameters
    ----------
    model : torch.nn.Module
    shifts : Shifts or MultilabelShifts
    """

    shifts: torch.Tensor

    def __init__(self, model: torch.nn.Module, shifts: AnyShifts) -> None:
        super().__init__()
        self.model = model
        # In float32 even if the model is not: its head may be finer than its body, and is rounded once.
        self.register_buffer("shifts", torch.tensor(shifts.values, dtype=torch.float32, device=device_of(model)))

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """What the model returns, with corrected logits."""
        output = self.model(*inputs, **named)
        logits = logits_of(output)
        shifts = self.shifts.to(logits.dtype)
        if is_one_logit(tuple(logits.shape), len(shifts)):
            shifts = shifts[1:] - shifts[:1]
        return with_logits(output, logits + in_form_of(shifts, logits.ndim))
