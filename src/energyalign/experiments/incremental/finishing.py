"""What is done at the end of a step while its images are at hand: exemplars are chosen, a record is written."""

from __future__ import annotations

import numpy as np

from energyalign.experiments.engine.for_inference import for_inference
from energyalign.experiments.engine.outputs import outputs, scores
from energyalign.experiments.incremental.memory import Memory
from energyalign.experiments.incremental.record import StepRecord
from energyalign.experiments.incremental.selection import herded_lists, random_lists
from energyalign.experiments.incremental.step import Step
from energyalign.experiments.nets.network import Network


def finish_step(step: Step, network: Network, memory: Memory) -> tuple[Memory, StepRecord]:
    """The memory with which the next step begins, and the record of this one."""
    config, classes = step.config, range(step.n_old, step.n_seen)
    places = np.flatnonzero(step.is_new)
    images, indices, labels = step.train.subset(places), step.indices[places], step.train.labels[places]
    backbone = for_inference(network).backbone
    features = outputs(backbone, images, workers=step.workers, device=step.fabric.device)
    logits = scores(network.head, features, device=step.fabric.device)
    if config.memory.selection == "herding":
        most = config.memory.quotas(step.counts)[step.n_old :]
        lists = herded_lists(indices, labels, classes, features, most)
    else:
        lists = random_lists(indices, labels, classes, step.seed("memory"))
    kept = memory.after(Memory(lists, step.new_held_out), config.memory, config.held_out)
    return kept, StepRecord.of(network, logits, labels, step.n_old)
