"""Networks compiled for the time of a training, with `torch.compile`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.nets.bbn import TwoBranches
from energyalign.experiments.nets.network import Network
from energyalign.experiments.nets.random_paths import RandomPaths
from energyalign.experiments.nets.registry import PATHS_ARE_NOT_COMPILED


@contextlib.contextmanager
def compiled(network: torch.nn.Module) -> Iterator[None]:
    """Whoever calls the network inside, or a wrapper of it, runs compiled code; afterwards it is as it was.

    Compiled is the backbone, which takes nearly all of the time. Losses and heads get numbers that change from batch to
    batch or from epoch to epoch, for each of which torch would compile anew.
    """
    parts = _parts(network)
    for part in parts:
        # Not dynamic: code for any size of batch would, once a smaller last batch has asked for it, serve all the
        # others too, with other roundings than the code before it. A run that is resumed could not end the same.
        part.forward = torch.compile(part.forward, dynamic=False)
    try:
        yield
    finally:
        for part in parts:
            del part.forward
        # It keeps code for eight sizes of batches, and beyond that compiles no more, silently: of many trainings in one
        # process the later ones would not be what they are in a process that goes on with them.
        torch.compiler.reset()


def refuse_without_compiler(device: torch.device) -> None:
    """Compile something small, as whatever is missing is told best before a training begins."""
    try:
        torch.compile(_something_small, dynamic=False)(torch.zeros(2, device=device))
    except Exception as error:  # of the many kinds that the parts of `torch.compile` have
        reason = str(error).strip().split("\n")[0].rstrip(".")
        raise EnergyAlignError(
            f"torch.compile does not work here ({reason}): install a C++ compiler (on Debian: apt install g++) or name "
            "one in the environment variable CXX, or leave out --compile."
        ) from error


def _something_small(numbers: torch.Tensor) -> torch.Tensor:
    return 2.0 * numbers + 1.0


def _parts(network: torch.nn.Module) -> list[torch.nn.Module]:
    backbone = network.backbone if isinstance(network, Network) else network
    if isinstance(backbone, RandomPaths):
        raise EnergyAlignError(PATHS_ARE_NOT_COMPILED)
    return list(backbone.children()) if isinstance(backbone, TwoBranches) else [backbone]
