"""Logits of a real network, shipped with the package."""

from energyalign.datasets.cifar100_lt import Logits, load_cifar100_lt

__all__ = ["Logits", "load_cifar100_lt"]
