"""cRT and LWS: what they train, and that nothing else moves."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from untrained_run import untrained_run

from energyalign.experiment.evidence import EvidencePlan
from energyalign.longtail.correctors.crt import ClassifierRetraining
from energyalign.longtail.correctors.lws import LearnableWeightScaling, ScaledHead
from energyalign.nets.heads import make_head
from energyalign.train.randomness import seed_torch


def stored(folder: Path) -> dict[str, torch.Tensor]:
    """The tensors of the network at the end of a stage."""
    tensors = load_file(max((folder / "checkpoints").iterdir()))
    return {name.removeprefix("model/"): value for name, value in tensors.items() if name.startswith("model/")}


@pytest.mark.parametrize("head", ["linear", "cosine"])
def test_crt_trains_a_new_head_of_the_same_kind_and_nothing_else(tmp_path: Path, head: str) -> None:
    trained = untrained_run(tmp_path, head=head)
    corrected = ClassifierRetraining().correct(trained, EvidencePlan())
    tensors = stored(tmp_path / "crt")
    backbone = trained.network.backbone.state_dict()
    assert any("running_mean" in name for name in backbone)
    for name, value in backbone.items():
        assert torch.equal(tensors.pop(f"backbone.{name}"), value), name
    seed_torch(0, "crt", "head")
    drawn = make_head(head, 64, 10).state_dict()
    assert tensors.keys() == {f"head.{name}" for name in drawn}
    assert not torch.equal(tensors["head.weight"], drawn["weight"])
    assert not torch.equal(tensors["head.weight"], trained.network.head.weight)
    if head == "linear":
        expected = trained.test_features @ tensors["head.weight"].numpy().T + tensors["head.bias"].numpy()
        np.testing.assert_allclose(corrected.logits, expected, rtol=1e-4, atol=1e-5)
    assert corrected.details == {"epochs": 1}
    assert corrected.shifts is None


def test_lws_learns_one_number_per_class(tmp_path: Path) -> None:
    trained = untrained_run(tmp_path)
    corrected = LearnableWeightScaling().correct(trained, EvidencePlan())
    tensors = stored(tmp_path / "lws")
    scales = tensors.pop("head.scales").numpy()
    for name, value in trained.network.state_dict().items():
        assert torch.equal(tensors.pop(name.replace("head.", "head.head.")), value), name
    assert not tensors
    assert np.all(scales != 1.0)
    np.testing.assert_allclose(corrected.details["scales"], scales)
    np.testing.assert_allclose(corrected.logits, scales * trained.test_logits, rtol=1e-4, atol=1e-6)


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
    """A ninth and an eighteenth of 18 epochs, from the initial rate, by a cosine; the rest as in the run."""
    trained = untrained_run(tmp_path, epochs=18)
    corrector.correct(trained, EvidencePlan())
    (folder,) = (entry for entry in tmp_path.iterdir() if entry.is_dir())
    config = json.loads((folder / "config.json").read_text())
    recipe, of_run = config["second_stage"].pop("recipe"), trained.setting.config.to_json()["recipe"]
    assert (recipe["epochs"], recipe["schedule"]["kind"]) == (epochs, "Cosine")
    assert (recipe["optimizer"], recipe["batch_size"]) == (of_run["optimizer"], of_run["batch_size"])
    assert config["second_stage"] == {"kind": type(corrector).__name__, "part": corrector.part}
    del config["second_stage"]
    assert config == trained.setting.config.to_json()
