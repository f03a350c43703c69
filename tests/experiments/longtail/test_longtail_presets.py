"""A preset for every long-tailed cell of the paper, with its numbers and its recipe."""

from __future__ import annotations

import pytest

from energyalign import EnergyAlignError
from energyalign.experiments.longtail.paper import PAPER
from energyalign.experiments.longtail.presets import PRESETS, preset_for
from energyalign.experiments.nets.registry import BACKBONES


def test_every_cell_of_the_paper_has_a_preset_and_a_number_of_ea() -> None:
    assert set(PAPER) <= set(PRESETS)
    assert len(PAPER) == 10
    assert all("ea" in rows for rows in PAPER.values())


@pytest.mark.parametrize(
    ("cell", "row", "overall"),
    [
        ("cifar100-lt-100", "ea", 45.3),
        ("cifar10-lt-10", "de-confound-tde", 88.5),
        ("cifar100-lt-100", "la-post-hoc", 41.8),
        ("imagenet-lt-resnext50", "ea", 52.7),
        ("inaturalist-200", "ea", 70.4),
    ],
)
def test_numbers_as_printed(cell: str, row: str, overall: float) -> None:
    assert PAPER[cell][row].overall == overall


def test_dashes_are_missing_and_not_zero() -> None:
    assert "la-post-hoc" not in PAPER["cifar100-lt-50"]
    assert PAPER["inaturalist-90"]["bbn"].many is None


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda preset: preset.name)
def test_presets_name_what_exists_and_quick_is_shorter_or_equal(preset: object) -> None:
    assert preset.backbone in BACKBONES  # type: ignore[attr-defined]
    assert preset.quick().recipe.epochs <= preset.recipe.epochs  # type: ignore[attr-defined]


def test_the_recipe_of_cifar() -> None:
    recipe = PRESETS["cifar100-lt-100"].recipe
    assert (recipe.epochs, recipe.batch_size) == (200, 128)
    assert [recipe.lr(epoch) for epoch in (5, 119, 120, 160)] == pytest.approx([0.1, 0.1, 1e-3, 1e-5])


@pytest.mark.parametrize(
    ("cell", "epochs", "lr"),
    [
        ("imagenet-lt-resnet50", 90, 0.2),
        ("imagenet-lt-resnext50", 90, 0.2),
        ("inaturalist-90", 90, 0.1),
        ("inaturalist-200", 200, 0.1),
    ],
)
def test_the_recipes_of_the_large_sets(cell: str, epochs: int, lr: float) -> None:
    recipe = PRESETS[cell].recipe
    assert (recipe.epochs, recipe.batch_size) == (epochs, 512)
    assert recipe.lr(1) == lr
    assert recipe.lr(epochs // 2 + 1) == pytest.approx(lr / 2)
    assert recipe.lr(epochs) < 1e-3


def test_all_cells_of_the_paper_have_its_optimiser_and_head() -> None:
    for cell in PAPER:
        optimizer = PRESETS[cell].recipe.optimizer
        assert (optimizer.momentum, optimizer.weight_decay, optimizer.nesterov) == (0.9, 5e-4, False)  # type: ignore[attr-defined]
        assert PRESETS[cell].head == "cosine"


def test_a_cell_by_name_keeps_its_imbalance() -> None:
    assert preset_for("digits-lt-50", 50) is PRESETS["digits-lt-50"]
    with pytest.raises(EnergyAlignError, match="digits-lt-50 has a fixed imbalance"):
        preset_for("digits-lt-50", 10)


def test_by_dataset_by_name_and_at_another_imbalance() -> None:
    assert preset_for("cifar100", 50) is PRESETS["cifar100-lt-50"]
    assert preset_for("inaturalist-200", None) is PRESETS["inaturalist-200"]
    other = preset_for("cifar100", 20)
    assert (other.name, other.imbalance, other.paper) == ("cifar100-lt-20", 20, {})
    own = preset_for("folder:/data/my images", None)
    assert (own.name, own.dataset, own.imbalance) == ("folder-my-images", "folder:/data/my images", None)
    assert preset_for("folder:/data/my images", 20.0).name == "folder-my-images-lt-20"


def test_what_there_is_not() -> None:
    with pytest.raises(EnergyAlignError, match=r"there is no preset for 'mnist': choose one of .*cifar100"):
        preset_for("mnist", None)
    with pytest.raises(EnergyAlignError, match="long-tailed already: leave --imbalance out"):
        preset_for("imagenet-lt", 100)
