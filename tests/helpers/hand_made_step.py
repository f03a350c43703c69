"""The end of a step with chosen numbers instead of a training: pixels as features, and small weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from incremental_run import digits_config
from lightning_fabric import Fabric
from torch import nn

from energyalign.experiments.data.images import MemoryImages
from energyalign.experiments.data.preparation import Normalisation, SmallPreparation
from energyalign.experiments.engine.trained import Trained
from energyalign.experiments.incremental.learners.fine_tuning import FineTuning
from energyalign.experiments.incremental.step import Step, StepRecord
from energyalign.experiments.nets.network import Network
from energyalign.experiments.train.reporter import Reporter
from energyalign.experiments.train.run_directory import RunDirectory


def pixels(features: Sequence[Sequence[int]], labels: Sequence[int], n_classes: int) -> MemoryImages:
    """Return images of one pixel, whose channels are these features from 0 to 255."""
    values = torch.tensor(features, dtype=torch.uint8)[:, :, None, None]
    as_they_are = Normalisation((0.0,) * values.shape[1], (1 / 255,) * values.shape[1])
    names = tuple(f"class {k}" for k in range(n_classes))
    return MemoryImages("pixels", values, np.array(labels), names, SmallPreparation(as_they_are, padding=0))


def hand_made_step(
    head: nn.Module, sizes: tuple[int, ...], train: MemoryImages, *, records: Sequence[StepRecord] = (),
    held_out: MemoryImages | None = None,
) -> Trained:  # fmt: skip
    """Return the end of the last of several steps of these sizes."""
    step = Step(
        digits_config(FineTuning(), epochs=1), len(sizes), sizes, np.arange(len(train)), train, (), held_out,
        RunDirectory(Path("nowhere")), Fabric(accelerator="cpu", devices=1), Reporter(),
    )  # fmt: skip
    return Trained(
        network=Network(nn.Flatten(), head), ground=step, evidence_seed=0, run=step.run, fabric=step.fabric,
        reporter=step.reporter, network_sha256="", number=step.number, sizes=sizes, held_out=held_out, exemplars=train,
        records=records,
    )  # fmt: skip


def linear(weight: Sequence[Sequence[float]], bias: Sequence[float] | None = None) -> nn.Linear:
    """Return a head with these weights, and bias zero by default."""
    values = torch.tensor(weight, dtype=torch.float32)
    head = nn.Linear(values.shape[1], len(values))
    head.weight.data = values
    head.bias.data = torch.zeros(len(values)) if bias is None else torch.tensor(bias, dtype=torch.float32)
    return head


def record(
    weight: Sequence[Sequence[float]] = ((1.0,),), *, bias: Sequence[float] = (0.0,), mean_score: Sequence[float] = (),
    mean_probability: Sequence[float] = (), confidence: float = 1.0, confidence_probability: float = 1.0,
) -> StepRecord:  # fmt: skip
    """Return a step record with the fields that matter."""
    arrays = (np.array(values, dtype=np.float64) for values in (weight, bias, mean_score, mean_probability))
    return StepRecord(*arrays, confidence, confidence_probability)
