"""Networks of timm and torchvision as backbones: without their classifier, and with images converted to fit."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import torch
from torch import nn
from torch.nn import functional as F

from energyalign.core._io.tensors import read_tensors
from energyalign.core.errors import EnergyAlignError, reason_of, some_of
from energyalign.experiments.nets.registry import DEFAULT_WEIGHTS
from energyalign.files.checks import InputFile

Size: TypeAlias = tuple[int, int]
"""Height and width."""


class LibraryBackbone(nn.Module):  # type: ignore[misc]
    """A network without its classifier, which converts the images of a data set to the format it expects.

    `scale` and `offset` convert from the normalisation of the data set to the normalisation of the library, and
    broadcast grey images to three channels. Images are resized to `size` unless it is None.
    """

    scale: torch.Tensor | None
    offset: torch.Tensor | None

    def __init__(
        self, net: nn.Module, n_features: int, scale: torch.Tensor | None, offset: torch.Tensor | None,
        size: Size | None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.net, self.n_features, self.size = net, n_features, size
        self.register_buffer("scale", scale, persistent=False)
        self.register_buffer("offset", offset, persistent=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return features, which may be negative."""
        if self.scale is not None:
            images = images * self.scale + self.offset
        if self.size is not None:
            images = F.interpolate(images, self.size, mode="bilinear", antialias=True)
        return self.net(images)


class _Made(NamedTuple):
    """A network without its classifier, the names of the classifier's parts, and the images that it expects."""

    net: nn.Module
    classifier: tuple[str, ...]
    mean: Sequence[float]
    std: Sequence[float]
    size: Size


def make_library_backbone(
    name: str, *, in_channels: int, size: Size, mean: Sequence[float], std: Sequence[float], weights: str | None
) -> LibraryBackbone:
    """Make a network such as ``timm:resnet18`` for images of this size and normalisation.

    Weights come from torch's global generator, a file, or the library (``default``). With given weights, images are
    resized to the size that the library states for the network; otherwise only if the network cannot take their size.
    """
    library, _, model = name.partition(":")
    make = _from_timm if library == "timm" else _from_torchvision
    made = make(name, model, pretrained=weights == DEFAULT_WEIGHTS)
    if weights not in (None, DEFAULT_WEIGHTS):
        load_weights(made.net, weights, made.classifier)
    seen, n_features = _find_size(name, made.net, [made.size] if weights else [size, made.size])
    its_mean, its_std, own_mean, own_std = (
        torch.tensor(values, dtype=torch.float32).view(-1, 1, 1) for values in (mean, std, made.mean, made.std)
    )
    scale, offset = its_std / own_std, (its_mean - own_mean) / own_std
    if in_channels == 3 and bool((scale == 1).all() and (offset == 0).all()):
        scale = offset = None
    return LibraryBackbone(made.net, n_features, scale, offset, None if seen == size else seen)


def load_weights(net: nn.Module, path: str, classifier: Iterable[str] = ()) -> None:
    """Load a safetensors file that holds all tensors of the network and, apart from the `classifier`, no others."""
    stored = _read_weights(path)
    wanted = net.state_dict()
    # Old files do not have this counter of batch normalisation, and nothing depends on it.
    missing = [name for name in wanted if name not in stored and not name.endswith("num_batches_tracked")]
    dropped = tuple(f"{part}." for part in classifier)
    extra = [name for name in stored if name not in wanted and not name.startswith(dropped)]
    other = [name for name in wanted if name in stored and stored[name].shape != wanted[name].shape]
    problems = {"lacks": missing, "also has": extra, "has another shape for": other}
    if any(problems.values()):
        listed = "; ".join(f"it {verb} {some_of(names)}" for verb, names in problems.items() if names)
        raise EnergyAlignError(
            f"--weights {path} do not fit this backbone: {listed}. Give the --backbone that they belong to, and "
            "its unchanged state dict."
        )
    net.load_state_dict({name: value for name, value in stored.items() if name in wanted}, strict=False)


def _read_weights(path: str) -> dict[str, torch.Tensor]:
    from safetensors.torch import load

    if Path(path).suffix != ".safetensors":
        raise EnergyAlignError(
            f"--weights {path} must be a .safetensors file, since other formats can run code when they are read: "
            "write one with safetensors.torch.save_file(state_dict, path)."
        )
    with InputFile(Path(path), f"--weights {path}", "a .safetensors file").open() as stream:
        stored, _ = read_tensors(stream, load)
    return stored


def _from_timm(name: str, model: str, *, pretrained: bool) -> _Made:
    try:
        import timm
    except ImportError as error:
        raise EnergyAlignError(f"{name} needs timm: pip install 'energyalign[timm]'.") from error
    if not timm.is_model(model):
        raise _unknown(name, model, timm.list_models())
    net = _get(name, lambda: timm.create_model(model, pretrained=pretrained, num_classes=0), pretrained)
    expected = net.pretrained_cfg
    classifier = expected.get("classifier") or ()
    parts = (classifier,) if isinstance(classifier, str) else tuple(classifier)
    return _Made(net, parts, expected["mean"], expected["std"], tuple(expected["input_size"][1:]))


def _from_torchvision(name: str, model: str, *, pretrained: bool) -> _Made:
    from torchvision import models

    known = models.list_models(module=models)
    if model not in known:
        raise _unknown(name, model, known)
    net = _get(name, lambda: models.get_model(model, weights="DEFAULT" if pretrained else None), pretrained)
    linear = [part for part, module in net.named_modules() if isinstance(module, nn.Linear)]
    if not linear or hasattr(net, "aux_logits"):
        raise EnergyAlignError(
            f"{name} does not end in one linear classifier that can be removed: choose another backbone."
        )
    net.set_submodule(linear[-1], nn.Identity())
    expected = models.get_model_weights(model).DEFAULT.transforms()
    return _Made(net, (linear[-1],), expected.mean, expected.std, (expected.crop_size[0],) * 2)


def _get(name: str, make: Callable[[], nn.Module], pretrained: bool) -> nn.Module:
    try:
        return make()
    except Exception as error:  # libraries and downloads raise errors of many kinds
        if not pretrained:
            raise EnergyAlignError(
                f"{name} cannot be created ({reason_of(error)}): choose another backbone."
            ) from error
        raise EnergyAlignError(
            f"cannot get the default weights of {name} ({reason_of(error)}). They are downloaded: check the network, "
            "or give a file that you have, --weights PATH."
        ) from error


def _unknown(name: str, model: str, known: Sequence[str]) -> EnergyAlignError:
    library = name.partition(":")[0]
    near = difflib.get_close_matches(model, known) or known[:3]
    return EnergyAlignError(
        f"unknown backbone {name!r}: {library} has {len(known):,} networks, such as {', '.join(near)}; "
        f"{library}.list_models() lists them."
    )


def _find_size(name: str, net: nn.Module, sizes: Sequence[Size]) -> tuple[Size, int]:
    """Return the first size of images that the network accepts, and its number of features."""
    net.eval()
    for height, width in sizes:
        try:
            with torch.no_grad():
                shape = net(torch.zeros(1, 3, height, width)).shape
            break
        except Exception as error:  # networks raise errors of many kinds
            if (height, width) == sizes[-1]:
                raise EnergyAlignError(
                    f"{name} cannot take images of {height} x {width} pixels ({reason_of(error)}): choose another "
                    "backbone."
                ) from error
    net.train()
    if len(shape) != 2:
        raise EnergyAlignError(
            f"{name} returns an array of shape {tuple(shape[1:])} for an image, and a head needs a vector: choose "
            "another backbone."
        )
    return (height, width), int(shape[1])
