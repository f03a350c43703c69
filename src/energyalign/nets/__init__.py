"""Backbones, heads, and the networks made of one of each."""

from energyalign.nets.bbn import BbnResNet32
from energyalign.nets.heads import HEADS, CosineHead, LinearHead, grown, make_head
from energyalign.nets.network import BACKBONES, Network, make_network
from energyalign.nets.resnet32 import CifarResNet
from energyalign.nets.small_cnn import SmallCnn

__all__ = [
    "BACKBONES",
    "HEADS",
    "BbnResNet32",
    "CifarResNet",
    "CosineHead",
    "LinearHead",
    "Network",
    "SmallCnn",
    "grown",
    "make_head",
    "make_network",
]
