"""Networks of torchvision for images of photograph size, never pre-trained, without their heads."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from energyalign.core.errors import EnergyAlignError


def torchvision_resnet(name: str, in_channels: int = 3) -> nn.Module:
    """A ResNet or ResNeXt of torchvision as a backbone.

    Parameters
    ----------
    name : {"resnet18", "resnet50", "resnext50_32x4d"}
    in_channels : int
        With other than 3 the first convolution is a new one, initialised as torchvision does.
    """
    try:
        from torchvision import models
    except ImportError as error:
        raise EnergyAlignError(
            f"{name} needs torchvision, which is not installed: pip install 'energyalign[experiments]'."
        ) from error
    net = models.get_model(name, weights=None)
    if in_channels != net.conv1.in_channels:
        net.conv1 = nn.Conv2d(in_channels, net.conv1.out_channels, 7, stride=2, padding=3, bias=False)
        nn.init.kaiming_normal_(net.conv1.weight, mode="fan_out", nonlinearity="relu")
    net.n_features = net.fc.in_features
    net.fc = nn.Identity()
    return net


def split_resnet(net: nn.Module) -> tuple[nn.Module, nn.Module]:
    """All before the last block of such a network, and that block, which is then missing in it: for `TwoBranches`."""
    last = net.layer4.pop(-1)
    before = OrderedDict((name, part) for name, part in net.named_children() if name not in ("avgpool", "fc"))
    return nn.Sequential(before), last
