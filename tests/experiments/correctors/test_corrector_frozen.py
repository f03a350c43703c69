"""cRT and LWS: which parameters they train, and what else changes."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from untrained_run import images_of_test, scores_of_test, untrained_run

from energyalign.experiments.correctors.decoupling import ClassifierRetraining, LearnableWeightScaling
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.presets import PRESETS
from energyalign.experiments.nets.corrected_heads import ScaledHead
from energyalign.experiments.nets.heads import make_head
from energyalign.experiments.train.randomness import seed_torch
from energyalign.experiments.train.recipe import SGD


def stored(folder: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of the network at the end of a stage."""
    tensors = load_file(max((folder / "checkpoints").iterdir()))
    return {name.removeprefix("model/"): value for name, value in tensors.items() if name.startswith("model/")}


@pytest.mark.parametrize("head", ["linear", "cosine"])
def test_crt_trains_a_new_head_of_the_same_kind_and_nothing_else(tmp_path: Path, head: str) -> None:
    trained = untrained_run(tmp_path, head=head)
    corrected = ClassifierRetraining(frozen_statistics=True).correct(trained, EvidencePlan())
    tensors = stored(tmp_path / "crt-frozen")
    backbone = trained.network.backbone.state_dict()
    assert any("running_mean" in name for name in backbone)
    for name, value in backbone.items():
        assert torch.equal(tensors.pop(f"backbone.backbone.{name}"), value), name
    seed_torch(0, "crt", "head")
    drawn = make_head(head, 64, 10).state_dict()
    assert tensors.keys() == {f"head.{name}" for name in drawn}
    assert not torch.equal(tensors["head.weight"], drawn["weight"])
    assert not torch.equal(tensors["head.weight"], trained.network.head.weight)
    if head == "linear":
        expected = (
            trained.features(images_of_test(trained)) @ tensors["head.weight"].numpy().T + tensors["head.bias"].numpy()
        )
        np.testing.assert_allclose(scores_of_test(trained, corrected), expected, rtol=1e-4, atol=1e-5)
    assert corrected.details == {"epochs": 1}
    assert corrected.shifts is None


def test_lws_learns_one_number_per_class(tmp_path: Path) -> None:
    trained = untrained_run(tmp_path)
    corrected = LearnableWeightScaling(frozen_statistics=True).correct(trained, EvidencePlan())
    tensors = stored(tmp_path / "lws-frozen")
    scales = tensors.pop("head.scales").numpy()
    for name, value in trained.network.state_dict().items():
        assert torch.equal(tensors.pop(re.sub(r"^(head|backbone)\.", r"\1.\1.", name)), value), name
    assert not tensors
    assert np.all(scales != 1.0)
    np.testing.assert_allclose(corrected.details["scales"], scales)
    np.testing.assert_allclose(
        scores_of_test(trained, corrected),
        scales * trained.scores(trained.network.head, trained.features(images_of_test(trained))),
        rtol=1e-4,
        atol=1e-6,
    )


@pytest.mark.parametrize("corrector", [ClassifierRetraining(), LearnableWeightScaling()])
def test_batch_statistics_move_with_the_new_sampling_as_in_the_original(
    tmp_path: Path, corrector: ClassifierRetraining | LearnableWeightScaling
) -> None:
    """The weights of the backbone do not change."""
    trained = untrained_run(tmp_path)
    before = {name: value.clone() for name, value in trained.network.backbone.state_dict().items()}
    corrector.correct(trained, EvidencePlan())
    (folder,) = (entry for entry in tmp_path.iterdir() if entry.is_dir())
    after = stored(folder)
    moved = {name for name, value in before.items() if not torch.equal(after[f"backbone.backbone.{name}"], value)}
    statistics = {name for name in before if name.endswith(("running_mean", "running_var", "num_batches_tracked"))}
    assert moved == statistics
    assert all(torch.equal(trained.network.backbone.state_dict()[name], value) for name, value in before.items())


@pytest.mark.parametrize(
    ("preset", "quick", "crt", "lws"), [("inaturalist-90", False, 30, 5), ("inaturalist-200", False, 30, 5),
    ("inaturalist-90", True, 1, 1)]
)  # fmt: skip
def test_the_originals_settings_on_inaturalist(preset: str, quick: bool, crt: int, lws: int) -> None:
    cell = PRESETS[preset].quick() if quick else PRESETS[preset]
    config = LongTailConfig.from_preset(cell, seed=0)
    for corrector, epochs in ((ClassifierRetraining(), crt), (LearnableWeightScaling(), lws)):
        recipe = corrector.recipe(config)
        assert (recipe.epochs, recipe.batch_size) == (epochs, 512)
        assert recipe.optimizer == SGD(0.2, weight_decay=1e-4)


def test_the_originals_settings_on_imagenet_lt() -> None:
    config = LongTailConfig.from_preset(PRESETS["imagenet-lt-resnet50"], seed=0)
    assert ClassifierRetraining().recipe(config).epochs == 10
    assert LearnableWeightScaling().recipe(config).epochs == 5
    assert ClassifierRetraining().recipe(config).optimizer == SGD(0.2, weight_decay=5e-4)


def test_scaled_logits_by_hand() -> None:
    head = torch.nn.Linear(2, 2)
    head.load_state_dict({"weight": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "bias": torch.tensor([0.5, -1.0])})
    scaled = ScaledHead(head, 2)
    features = torch.tensor([[1.0, -1.0]])
    assert scaled(features).tolist() == [[-0.5, -2.0]]
    scaled.scales.data = torch.tensor([2.0, 0.5])
    assert scaled(features).tolist() == [[-1.0, -1.0]]
    assert [name for name, value in scaled.named_parameters() if value.requires_grad] == ["scales"]
    assert not scaled.train().head.training


@pytest.mark.parametrize(("corrector", "epochs"), [(ClassifierRetraining(), 2), (LearnableWeightScaling(), 1)])
def test_the_config_of_the_stage(tmp_path: Path, corrector: ClassifierRetraining, epochs: int) -> None:
    """A ninth and an eighteenth of 18 epochs, from the initial rate, with a cosine schedule; the rest as in the run."""
    trained = untrained_run(tmp_path, epochs=18)
    corrector.correct(trained, EvidencePlan())
    (folder,) = (entry for entry in tmp_path.iterdir() if entry.is_dir())
    config = json.loads((folder / "config.json").read_text())
    recipe, of_run = config["second_stage"].pop("recipe"), trained.config.to_json()["recipe"]
    assert (recipe["epochs"], recipe["schedule"]["kind"]) == (epochs, "Cosine")
    assert (recipe["optimizer"], recipe["batch_size"]) == (of_run["optimizer"], of_run["batch_size"])
    assert config["second_stage"] == {"kind": type(corrector).__name__, **asdict(corrector)}
    del config["second_stage"]
    assert config == trained.config.to_json()
