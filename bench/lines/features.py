"""Time of an epoch of a head on features, compared with its matrix products and with a plain torch loop."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import torch
from lightning_fabric import Fabric
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from bench.cifar_training import PartByPart
from bench.line import Line, at_least, at_most
from bench.measure import alternate
from bench.own_process import OwnProcess, Turns
from energyalign.cli.process import keep_freed_memory
from energyalign.experiments.data.features import FeatureSet
from energyalign.experiments.data.loader import Loader
from energyalign.experiments.engine.config import FEATURES_RECIPE
from energyalign.experiments.longtail.learners.cross_entropy import CrossEntropy
from energyalign.experiments.nets.network import Network, make_network
from energyalign.experiments.train.loop import TrainingLoop
from energyalign.experiments.train.randomness import seed_torch
from energyalign.experiments.train.run_directory import open_run

SAMPLES, FEATURES, CLASSES = 115_846, 1_024, 1_000  # ImageNet-LT
BATCHES = 40  # of each contestant in each round
WORKLOAD = f"{SAMPLES:,} × {FEATURES:,} features, {CLASSES:,} classes, batch {FEATURES_RECIPE.batch_size}, linear head"


def lines() -> Iterator[Line]:
    """Measure the loop of `energyalign longtail features:FILE --head linear`."""
    rng = np.random.default_rng(0)
    vectors = torch.from_numpy(rng.standard_normal((SAMPLES, FEATURES), dtype=np.float32))
    data = FeatureSet("made-up", vectors, rng.integers(0, CLASSES, SAMPLES), tuple(map(str, range(CLASSES))))
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(OwnProcess(_train, Path(folder), data)) as ours,
        closing(OwnProcess(_products, vectors)) as products,
        closing(OwnProcess(_script, data)) as script,
    ):
        seconds = alternate({"ours": ours.turn, "products": products.turn, "script": script.turn})
    yield Line.of(
        "features", WORKLOAD, "its matrix products alone", at_most(1.3),
        ours=seconds["ours"], theirs=seconds["products"],
    )  # fmt: skip
    yield Line.of(
        "features", WORKLOAD, "DataLoader of a TensorDataset, torch's Adam, a plain step", at_least(1.2),
        ours=seconds["ours"], theirs=seconds["script"],
    )  # fmt: skip


def _network() -> Network:
    seed_torch(0, "network")
    return make_network("identity", CLASSES, head="linear", in_channels=FEATURES)


def _train(turns: Turns, folder: Path, data: FeatureSet) -> None:
    """Train with the package's loop and loader."""
    keep_freed_memory()  # as the commands do
    turns.next()
    with open_run(folder, {}) as run:
        TrainingLoop(
            Fabric(accelerator="cpu", devices=1), _network(),
            batches=Loader(data, batch_size=FEATURES_RECIPE.batch_size, seed=0), loss=CrossEntropy().loss(None),
            recipe=FEATURES_RECIPE, run=run, seed=0, reporter=PartByPart(turns, BATCHES),
        ).finish()  # fmt: skip


def _products(turns: Turns, vectors: torch.Tensor) -> None:
    """Compute logits and the gradient of the weights: the minimum work of any head."""
    weight, gradient = torch.zeros(CLASSES, FEATURES), torch.ones(FEATURES_RECIPE.batch_size, CLASSES)
    batches = vectors.split(FEATURES_RECIPE.batch_size)
    while True:
        turns.next()
        for batch in batches[:BATCHES]:
            torch.mm(batch, weight.T)
            torch.mm(gradient.T, batch)


def _script(turns: Turns, data: FeatureSet) -> None:
    """Train with a plain script, as in a tutorial."""
    network = _network()
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    loader = DataLoader(
        TensorDataset(data.images, torch.from_numpy(data.labels)), FEATURES_RECIPE.batch_size, shuffle=True
    )
    while True:
        for done, (vectors, labels) in enumerate(loader):
            if done % BATCHES == 0:
                turns.next()
            optimizer.zero_grad()
            F.cross_entropy(network(vectors), labels).backward()
            optimizer.step()
