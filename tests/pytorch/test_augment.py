"""The ten transformations of the paper's appendix, and the policies that combine them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from energyalign.core.errors import EnergyAlignError
from energyalign.pytorch import augment
from energyalign.pytorch.augment import POLICIES, TRANSFORMATIONS, make_policy


@pytest.fixture
def image() -> torch.Tensor:
    """Return an image whose pixels all differ, without the extreme values."""
    return torch.linspace(0.1, 0.3, 3 * 32 * 32).reshape(3, 32, 32)


def many(name: str, image: torch.Tensor, n: int = 300) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.stack([TRANSFORMATIONS[name](image) for _ in range(n)])


def test_there_are_ten_in_the_order_of_the_table() -> None:
    assert list(TRANSFORMATIONS) == [
        "flip-x", "flip-y", "rotate", "affine", "perspective", "brightness", "contrast", "saturation", "hue", "erase",
    ]  # fmt: skip


def test_flips(image: torch.Tensor) -> None:
    assert torch.equal(TRANSFORMATIONS["flip-x"](image), image.flip(-1))
    assert torch.equal(TRANSFORMATIONS["flip-y"](image), image.flip(-2))


@pytest.mark.parametrize("name", TRANSFORMATIONS)
@pytest.mark.parametrize("channels", [1, 3])
def test_shape_and_range_are_kept(name: str, channels: int, image: torch.Tensor) -> None:
    out = many(name, image[:channels], 30)
    assert out.shape == (30, channels, 32, 32)
    assert out.dtype == torch.float32
    assert 0.0 <= float(out.min()) <= float(out.max()) <= 1.0


def test_brightness_multiplies_by_a_factor_from_0_to_5(image: torch.Tensor) -> None:
    factors = many("brightness", image * 0.5)[:, 0, 0, 0] / (0.5 * image[0, 0, 0])  # dark enough not to saturate
    assert 0.0 <= float(factors.min()) < 0.2
    assert 4.8 < float(factors.max()) <= 5.0
    assert float(factors.mean()) == pytest.approx(2.5, abs=0.3)


@pytest.mark.parametrize(("name", "kept"), [("contrast", False), ("saturation", True)])
def test_contrast_and_saturation_scale_the_distance_to_grey(name: str, kept: bool) -> None:
    """Factor 0 is grey, factor 1 the image, and up to 5 exceeds it; saturation keeps the grey value of each pixel."""
    pixels = torch.full((3, 8, 8), 0.5)
    pixels[0, :4] += 0.02
    out = many(name, pixels)
    contrast_axis = (out[:, 0, 0, 0] - out[:, 0, 7, 7]) if not kept else (out[:, 0, 0, 0] - out[:, 1, 0, 0])
    factors = contrast_axis / 0.02
    assert -0.01 <= float(factors.min()) < 0.2
    assert 4.7 < float(factors.max()) <= 5.01


def test_hue_turns_by_at_most_half_a_circle() -> None:
    red = torch.tensor([0.8, 0.2, 0.2]).reshape(3, 1, 1).expand(3, 8, 8).contiguous()
    out = many("hue", red)[:, :, 0, 0]
    # From red through yellow and green to cyan: blue is never the only maximum.
    assert bool((out[:, 2] <= out[:, 1] + 1e-5).all())
    assert bool((out[:, 1] > 0.7).any())


def test_rotations_stay_within_ten_degrees() -> None:
    """The farthest corner of a 64-pixel image moves along its circle by at most 10 degrees, and sometimes nearly so."""
    for name in ("rotate", "affine"):
        picture = torch.zeros(1, 65, 65)
        picture[0, 32, 60:] = 1.0
        out = many(name, picture, 400)
        rows, columns = torch.meshgrid(torch.arange(65) - 32.0, torch.arange(65) - 32.0, indexing="ij")
        mass = out.sum((1, 2, 3))
        angles = torch.rad2deg(
            torch.atan2((out[:, 0] * rows).sum((1, 2)) / mass, (out[:, 0] * columns).sum((1, 2)) / mass)
        )
        assert float(angles.abs().max()) < 11.0
        assert float(angles.max()) > 8.0
        assert float(angles.min()) < -8.0


def test_perspective_keeps_to_half_at_most(image: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    degrees = []
    real = augment.v2.RandomPerspective
    monkeypatch.setattr(
        augment.v2,
        "RandomPerspective",
        lambda distortion_scale, p: (degrees.append(distortion_scale), real(distortion_scale, p=p))[1],
    )
    many("perspective", image, 200)
    assert 0.0 <= min(degrees) < 0.02
    assert 0.48 < max(degrees) <= 0.5


def test_erase_takes_a_rectangle_of_the_published_size_and_shape() -> None:
    erased = many("erase", torch.ones(1, 64, 64), 300)[:, 0] == 0.0
    heights, widths = erased.any(2).sum(1).double(), erased.any(1).sum(1).double()
    assert torch.equal(erased.sum((1, 2)).double(), heights * widths)
    shares, ratios = heights * widths / 64**2, heights / widths
    assert float(shares.min()) > 0.015
    assert 0.25 < float(shares.max()) < 0.36
    assert 0.25 < float(ratios.min()) < 0.5
    assert 2.0 < float(ratios.max()) < 3.8


def applied(policy: str, image: torch.Tensor, monkeypatch: pytest.MonkeyPatch, n: int = 2000) -> list[tuple[int, ...]]:
    """Return the transformations that a policy applies, in order, over many draws."""
    log: list[int] = []
    names = list(TRANSFORMATIONS)

    def note(number: int) -> augment.ImageTransform:
        return lambda x: (log.append(number), x)[1]

    monkeypatch.setattr(augment, "TRANSFORMATIONS", {name: note(i) for i, name in enumerate(names)})
    torch.manual_seed(0)
    draws = []
    for _ in range(n):
        log.clear()
        make_policy(policy)(image)
        draws.append(tuple(log))
    return draws


@pytest.mark.parametrize(
    ("policy", "mean"), [("none", 0.0), ("crop-flip", 0.0), ("one", 1.0), ("two", 2.0), ("half", 5.0)]
)
def test_policies_apply_what_they_say(
    policy: str, mean: float, image: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = applied(policy, image, monkeypatch)
    sizes = np.array([len(draw) for draw in draws])
    if policy == "half":
        assert sizes.mean() == pytest.approx(5.0, abs=0.2)
        assert sizes.var() == pytest.approx(2.5, abs=0.3)  # ten independent coins
    else:
        assert set(sizes) == {int(mean)}
    assert all(list(draw) == sorted(set(draw)) for draw in draws)  # each at most once, in the order of the table
    if mean:
        shares = np.bincount(np.concatenate([np.array(d, dtype=int) for d in draws]), minlength=10) / len(draws)
        np.testing.assert_allclose(shares, mean / 10, atol=0.05)


def test_none_is_the_image_itself(image: torch.Tensor) -> None:
    assert make_policy("none")(image) is image


def test_crop_and_flip_moves_by_at_most_an_eighth(image: torch.Tensor) -> None:
    torch.manual_seed(0)
    marked = torch.zeros(1, 32, 32)
    marked[0, 16, 10] = 1.0
    places = {tuple(make_policy("crop-flip")(marked)[0].nonzero()[0].tolist()) for _ in range(600)}
    rows, columns = {r for r, _ in places}, {c for _, c in places}
    assert rows == set(range(12, 21))
    assert columns == set(range(6, 15)) | set(range(17, 26))  # as it is, and mirrored: 31 - 10 = 21


def test_every_policy_has_a_description() -> None:
    assert all(policy.description for policy in POLICIES.values())


def test_an_unknown_policy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        EnergyAlignError, match="unknown augmentation policy 'heavy': choose one of none, crop-flip, one"
    ):
        make_policy("heavy")
