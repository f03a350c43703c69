"""A network of which only the head learns."""

from __future__ import annotations

import torch

from energyalign.experiments.nets.network import FrozenBackbone, make_network


def test_a_step_of_training_leaves_the_backbone_alone() -> None:
    plain = make_network("small-cnn", 3, head="linear")
    images = torch.randn(4, 3, 8, 8)
    plain(images)  # moves the batch statistics
    expected = plain.eval()(images)
    network = FrozenBackbone(plain.backbone, plain.head).train()
    assert network.head.training
    assert not any(part.training for part in network.backbone.modules())
    before = {name: value.clone() for name, value in network.backbone.state_dict().items()}
    logits = network(images)
    assert torch.equal(logits, expected)
    logits.sum().backward()
    assert [name for name, value in network.named_parameters() if value.grad is not None] == [
        "head.weight",
        "head.bias",
    ]
    assert all(torch.equal(value, before[name]) for name, value in network.backbone.state_dict().items())
