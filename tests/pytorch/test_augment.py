"""The ten transformations of the paper's appendix, each beside torchvision's, and the policies that combine them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as F

from energyalign.core.errors import EnergyAlignError
from energyalign.pytorch import augment
from energyalign.pytorch.augment import N_NUMBERS, POLICIES, TRANSFORMATIONS, Transformation, make_policy

N = 40


@pytest.fixture
def image() -> torch.Tensor:
    """Return an image whose pixels all differ, without the extreme values."""
    return torch.linspace(0.1, 0.3, 3 * 32 * 32).reshape(3, 32, 32)


@pytest.fixture(params=[(3, 32, 32), (1, 17, 24), (3, 40, 25)], ids=str)
def images(request: pytest.FixtureRequest) -> torch.Tensor:
    """Smooth random images with some grey and some saturated pixels."""
    generator = torch.Generator().manual_seed(0)
    channels, height, width = request.param
    coarse = torch.rand(N, channels, 5, 5, generator=generator) * 1.4 - 0.2
    drawn = torch.nn.functional.interpolate(coarse, (height, width), mode="bilinear").clamp(0.0, 1.0)
    drawn[:4] = drawn[:4].mean(1, keepdim=True)
    return drawn


def numbers_for(name: str, n: int = N) -> torch.Tensor:
    return torch.rand(n, TRANSFORMATIONS[name].n_numbers, generator=torch.Generator().manual_seed(1))


def many(name: str, image: torch.Tensor, n: int = 300) -> torch.Tensor:
    return TRANSFORMATIONS[name].apply(image.expand(n, *image.shape), numbers_for(name, n))


def test_there_are_ten_in_the_order_of_the_table() -> None:
    assert list(TRANSFORMATIONS) == [
        "flip-x", "flip-y", "rotate", "affine", "perspective", "brightness", "contrast", "saturation", "hue", "erase",
    ]  # fmt: skip


def _perspective(image: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """As torchvision's RandomPerspective draws the corners."""
    _, height, width = image.shape
    degree, draws = 0.5 * float(numbers[0].double()), numbers[1:].double()
    bounds = (int(degree * (width // 2)) + 1, int(degree * (height // 2)) + 1)
    dx, dy = ([int(value * bound) for value in draws[axis::2]] for axis, bound in enumerate(bounds))
    right, bottom = width - 1, height - 1
    start = [[0, 0], [right, 0], [right, bottom], [0, bottom]]
    end = [[dx[0], dy[0]], [right - dx[1], dy[1]], [right - dx[2], bottom - dy[2]], [dx[3], bottom - dy[3]]]
    return F.perspective(image, start, end, interpolation=InterpolationMode.BILINEAR)


REFERENCES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "flip-x": lambda image, _: F.horizontal_flip(image),
    "flip-y": lambda image, _: F.vertical_flip(image),
    "perspective": _perspective,
    "brightness": lambda image, u: F.adjust_brightness(image, 5 * float(u[0])),
    "contrast": lambda image, u: F.adjust_contrast(image, 5 * float(u[0])),
    "saturation": lambda image, u: F.adjust_saturation(image, 5 * float(u[0])),
    "hue": lambda image, u: F.adjust_hue(image, 0.5 * float(u[0])),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_a_batch_becomes_what_torchvision_makes_of_each_image(name: str, images: torch.Tensor) -> None:
    numbers = numbers_for(name)
    expected = torch.stack([REFERENCES[name](*pair) for pair in zip(images, numbers, strict=True)])
    torch.testing.assert_close(TRANSFORMATIONS[name].apply(images, numbers), expected, rtol=0, atol=3e-5)


@pytest.mark.parametrize("name", ["rotate", "affine"])
def test_a_rotation_is_that_of_torchvision(name: str, images: torch.Tensor) -> None:
    """Of the nearest pixel: where two are equally near, rounding decides."""
    numbers = numbers_for(name)
    angles = (20 * numbers[:, 0].double() - 10).tolist()
    expected = torch.stack([F.rotate(image, angle) for image, angle in zip(images, angles, strict=True)])
    assert float((TRANSFORMATIONS[name].apply(images, numbers) == expected).double().mean()) > 0.999


@pytest.mark.parametrize("name", TRANSFORMATIONS)
@pytest.mark.parametrize("channels", [1, 3])
def test_shape_and_range_are_kept(name: str, channels: int, image: torch.Tensor) -> None:
    out = many(name, image[:channels], 30)
    assert out.shape == (30, channels, 32, 32)
    assert out.dtype == torch.float32
    assert -1e-6 <= float(out.min()) <= float(out.max()) <= 1.0 + 1e-6


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_an_image_does_not_depend_on_its_batch(name: str, images: torch.Tensor) -> None:
    numbers = numbers_for(name)
    whole = TRANSFORMATIONS[name].apply(images, numbers)
    for part in (slice(0, 1), slice(7, 20)):
        assert torch.equal(TRANSFORMATIONS[name].apply(images[part], numbers[part]), whole[part])


def test_brightness_multiplies_by_a_factor_from_0_to_5(image: torch.Tensor) -> None:
    factors = many("brightness", image * 0.5)[:, 0, 0, 0] / (0.5 * image[0, 0, 0])  # dark enough not to saturate
    assert 0.0 <= float(factors.min()) < 0.2
    assert 4.8 < float(factors.max()) <= 5.0
    assert float(factors.mean()) == pytest.approx(2.5, abs=0.3)


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


def test_corners_move_inwards_by_at_most_a_quarter_of_a_side() -> None:
    """By half of the half side: the middle is always seen, and a corner is often black."""
    out = many("perspective", torch.ones(1, 64, 64))[:, 0]
    assert float(out[:, 17:47, 17:47].min()) == pytest.approx(1.0)
    for row, column in ((0, 0), (0, -1), (-1, 0), (-1, -1)):
        assert 0.5 < float((out[:, row, column] < 0.5).float().mean()) < 1.0


def test_erase_takes_a_rectangle_of_the_published_size_and_shape() -> None:
    erased = many("erase", torch.ones(1, 64, 64))[:, 0] == 0.0
    heights, widths = erased.any(2).sum(1).double(), erased.any(1).sum(1).double()
    assert torch.equal(erased.sum((1, 2)).double(), heights * widths)
    shares, ratios = heights * widths / 64**2, heights / widths
    assert float(shares.min()) > 0.015
    assert 0.25 < float(shares.max()) < 0.36
    assert 0.25 < float(ratios.min()) < 0.5
    assert 2.0 < float(ratios.max()) < 3.8
    assert {0, 63} <= set(erased.any(2).nonzero()[:, 1].tolist())  # anywhere


def test_erase_takes_the_first_rectangle_that_fits() -> None:
    """By hand: a third of the area, more than three times as high as wide, does not fit; the next two would."""
    numbers = torch.full((1, TRANSFORMATIONS["erase"].n_numbers), 0.5)
    numbers[0, :4] = torch.tensor([0.0, 0.999, 1.0, 1.0])
    out = TRANSFORMATIONS["erase"].apply(torch.ones(1, 1, 20, 30), numbers)[0, 0]
    side = math.sqrt(0.175 * 600)  # the ratio is exp(0) = 1 up to log(3.3) + log(0.3) = -0.01
    rows, columns = (out == 0.0).nonzero().unbind(1)
    assert (int(rows.min()), int(rows.max()) + 1) == (0, round(side * math.exp(-0.0025)))
    assert (int(columns.min()), int(columns.max()) + 1) == (30 - round(side * math.exp(0.0025)), 30)


def test_without_a_rectangle_that_fits_nothing_is_erased() -> None:
    numbers = torch.ones(1, TRANSFORMATIONS["erase"].n_numbers)
    assert torch.equal(TRANSFORMATIONS["erase"].apply(torch.ones(1, 1, 9, 9), numbers), torch.ones(1, 1, 9, 9))


def chosen(policy: str, monkeypatch: pytest.MonkeyPatch, n: int = 2000) -> list[tuple[int, ...]]:
    """Which transformations a policy applies to each image, in order: a digit is appended by each."""

    def append(digit: int) -> Transformation:
        return Transformation(lambda images, _: 11 * images + digit, 0)

    monkeypatch.setattr(augment, "TRANSFORMATIONS", {name: append(k + 1) for k, name in enumerate(TRANSFORMATIONS)})
    numbers = torch.rand(n, N_NUMBERS, generator=torch.Generator().manual_seed(0))
    codes = make_policy(policy)(torch.zeros(n, 1, 8, 8, dtype=torch.float64), numbers)[:, 0, 0, 0].long().tolist()
    digits = [[code // 11**place % 11 for place in reversed(range(10))] for code in codes]
    return [tuple(digit - 1 for digit in row if digit) for row in digits]


@pytest.mark.parametrize(
    ("policy", "mean"), [("none", 0.0), ("crop-flip", 0.0), ("one", 1.0), ("two", 2.0), ("half", 5.0)]
)
def test_policies_apply_what_they_say(policy: str, mean: float, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = chosen(policy, monkeypatch)
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


def test_each_transformation_reads_numbers_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither those of another nor those that choose."""
    read: list[torch.Tensor] = []

    def note(n: int) -> Transformation:
        return Transformation(lambda images, numbers: (read.append(numbers), images)[1], n)

    monkeypatch.setattr(augment, "TRANSFORMATIONS", {k: note(v.n_numbers) for k, v in TRANSFORMATIONS.items()})
    numbers = torch.arange(float(N_NUMBERS))[None]
    numbers[:, :10] = 0.0
    make_policy("half")(torch.zeros(1, 1, 4, 4), numbers)
    assert torch.cat(read, dim=1)[0].tolist() == list(range(10, N_NUMBERS))


def test_none_is_the_images_themselves(image: torch.Tensor) -> None:
    assert make_policy("none")(image[None], torch.zeros(1, N_NUMBERS))[0].equal(image)


def test_crop_and_flip_moves_by_at_most_an_eighth() -> None:
    marked = torch.zeros(600, 1, 32, 32)
    marked[:, 0, 16, 10] = 1.0
    numbers = torch.rand(600, N_NUMBERS, generator=torch.Generator().manual_seed(0))
    places = make_policy("crop-flip")(marked, numbers)[:, 0].nonzero()
    rows, columns = (set(places[:, k].tolist()) for k in (1, 2))
    assert rows == set(range(12, 21))
    assert columns == set(range(6, 15)) | set(range(17, 26))  # as it is, and mirrored: 31 - 10 = 21


def test_every_policy_has_a_description() -> None:
    assert all(policy.description for policy in POLICIES.values())


def test_an_unknown_policy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        EnergyAlignError, match="unknown augmentation policy 'heavy': choose one of none, crop-flip, one"
    ):
        make_policy("heavy")
