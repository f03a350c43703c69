"""Real logits to try things on: nothing to download, nothing to train."""

from energyalign.datasets.cifar100_lt import Logits, load_cifar100_lt

__all__ = ["Logits", "load_cifar100_lt"]
