"""A trained network made ready to be asked much: batch normalisation goes into the convolution before it."""

from __future__ import annotations

import copy
from collections import Counter

from torch import fx, nn

from energyalign.experiments.nets.network import Network


def for_inference(network: Network) -> Network:
    """A copy in evaluation mode that says the same to rounding, sooner, and cannot be trained.

    In evaluation mode batch normalisation multiplies and adds numbers that do not change, which the convolution before
    it can do on the way. Equal weights give equal copies, to the bit, whether they were just trained or come from a
    file.
    """
    copied = copy.deepcopy(network)
    copied.eval().requires_grad_(False)
    copied.backbone = _folded(copied.backbone)
    return copied


def _folded(backbone: nn.Module) -> nn.Module:
    try:
        traced = fx.symbolic_trace(backbone)
    except Exception:  # what it does depends on what it sees, which is told in many ways: it stays as it is
        return backbone
    modules = dict(traced.named_modules())
    calls = [node for node in traced.graph.nodes if node.op == "call_module"]
    times_called = Counter(node.target for node in calls)
    for norm in calls:
        conv = norm.args[0] if norm.args else norm
        if conv is norm or conv not in calls or len(conv.users) > 1 or times_called[conv.target] > 1:
            continue
        if isinstance(modules[conv.target], nn.Conv2d) and _is_fixed(modules[norm.target]):
            folded = nn.utils.fuse_conv_bn_eval(modules[conv.target], modules[norm.target])
            traced.set_submodule(conv.target, folded)
            norm.replace_all_uses_with(conv)
            traced.graph.erase_node(norm)
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced


def _is_fixed(module: nn.Module) -> bool:
    """Whether it is a batch normalisation by numbers that do not depend on the batch."""
    return isinstance(module, nn.BatchNorm2d) and module.running_mean is not None
