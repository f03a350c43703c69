"""Backbones, heads, and the networks made of one of each."""

from energyalign.nets.bbn import TwoBranches
from energyalign.nets.capsule import CapsuleHead
from energyalign.nets.causal_norm import CausalNormHead
from energyalign.nets.cosine import CosineHead
from energyalign.nets.heads import HEADS, LinearHead, grown, make_head
from energyalign.nets.network import BACKBONES, Network, make_network
from energyalign.nets.normalised import NormalisedHead
from energyalign.nets.random_paths import RandomPaths
from energyalign.nets.resnet32 import CifarResNet
from energyalign.nets.small_cnn import SmallCnn

__all__ = [
    "BACKBONES",
    "HEADS",
    "CapsuleHead",
    "CausalNormHead",
    "CifarResNet",
    "CosineHead",
    "LinearHead",
    "Network",
    "NormalisedHead",
    "RandomPaths",
    "SmallCnn",
    "TwoBranches",
    "grown",
    "make_head",
    "make_network",
]
