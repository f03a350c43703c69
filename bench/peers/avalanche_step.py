"""A later step of avalanche-lib (Replay and LwF), run by the Python of its own virtual environment.

Prints a description as a line of JSON. Then it trains an epoch for every line on standard input and prints the number
of images. Imports nothing of energyalign.

    python avalanche_step.py THREADS EXEMPLARS NEW BATCH OLD_CLASSES NEW_CLASSES
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as np
import torch
from avalanche import __version__ as avalanche_version
from avalanche.benchmarks import nc_benchmark
from avalanche.models import IcarlNet
from avalanche.training.plugins import EvaluationPlugin, LwFPlugin, ReplayPlugin, SupervisedPlugin
from avalanche.training.supervised import Naive
from PIL import Image
from torchvision import transforms


class Pictures:
    """Dataset like torchvision's CIFAR sets: PIL images and targets."""

    def __init__(self, targets: list[int]) -> None:
        self.targets = targets
        self._pixels = np.random.default_rng(0).integers(0, 256, (len(targets), 32, 32, 3), dtype=np.uint8)

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        return Image.fromarray(self._pixels[index]), self.targets[index]


class OnDemand(SupervisedPlugin):
    """Plug-in that trains an epoch for each line on standard input."""

    def __init__(self, answers: Any) -> None:
        super().__init__()
        self._answers = answers
        self._images = 0

    def before_training_epoch(self, strategy: Any, **_kwargs: Any) -> None:  # noqa: ARG002
        if not sys.stdin.readline():
            sys.exit()
        self._images = 0

    def after_training_iteration(self, strategy: Any, **_kwargs: Any) -> None:
        self._images += len(strategy.mb_x)

    def after_training_epoch(self, strategy: Any, **_kwargs: Any) -> None:  # noqa: ARG002
        self._answers.write(json.dumps({"images": self._images}) + "\n")


def main() -> None:
    threads, n_exemplars, n_new, batch, n_old_classes, n_new_classes = map(int, sys.argv[1:])
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of libraries must not mix with the answers
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    # As in avalanche's SplitCIFAR100.
    scaled = [transforms.ToTensor(), transforms.Normalize((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))]
    train = transforms.Compose([transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip(), *scaled])
    n_classes = n_old_classes + n_new_classes
    targets = [k % n_old_classes for k in range(n_exemplars)]
    pictures = Pictures(targets + [n_old_classes + k % n_new_classes for k in range(n_new)])
    benchmark = nc_benchmark(
        pictures, Pictures(list(range(n_classes))), 2, task_labels=False, fixed_class_order=list(range(n_classes)),
        per_exp_classes={0: n_old_classes, 1: n_new_classes}, train_transform=train,
        eval_transform=transforms.Compose(scaled),
    )  # fmt: skip
    first, later = benchmark.train_stream
    network = IcarlNet(n_classes)
    of_memory = round(batch * n_exemplars / (n_exemplars + n_new))  # so that both sets end with the epoch
    replay = ReplayPlugin(n_exemplars, batch_size=batch - of_memory, batch_size_mem=of_memory)
    strategy = Naive(
        model=network, optimizer=torch.optim.SGD(network.parameters(), 0.1, momentum=0.9, weight_decay=4e-4),
        train_mb_size=batch, plugins=[replay, LwFPlugin()], evaluator=EvaluationPlugin(), device="cpu",
    )  # fmt: skip
    strategy.train(first)  # fills the memory, makes the teacher
    about = {
        "avalanche": avalanche_version, "torch": torch.__version__,
        "parameters": sum(value.numel() for value in network.feature_extractor.parameters()),
    }  # fmt: skip
    answers.write(json.dumps(about) + "\n")
    strategy.plugins.append(OnDemand(answers))
    strategy.train_epochs = 1_000_000
    strategy.train(later)


if __name__ == "__main__":
    main()
