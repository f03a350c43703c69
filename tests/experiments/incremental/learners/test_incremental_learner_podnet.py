"""PODNet: its loss by hand, proxies that start at centres and stay fixed, and that it learns and resumes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from incremental_run import StopAt, bytes_of_steps, digits_config, run_digits
from safetensors.torch import load_file
from tiny_setting import TinyBatch
from tiny_step import tiny_step

from energyalign import EnergyAlignError
from energyalign.core._io.signals import Interrupted
from energyalign.experiments.incremental.config import IncrementalConfig
from energyalign.experiments.incremental.learners import podnet
from energyalign.experiments.incremental.learners.podnet import PODNet, imprint, nca_loss, pooled_outputs
from energyalign.experiments.incremental.memory import MemoryPlan
from energyalign.experiments.incremental.presets import preset_for
from energyalign.experiments.nets.network import Network
from energyalign.experiments.nets.podnet import features_and_maps


def second_step(counts: tuple[int, ...] = (3, 3, 12, 2)) -> tuple[object, Network]:
    """Make a step with two old and two new classes."""
    learner = PODNet()
    first = learner.start(tiny_step(learner, counts[:2], (2,), memory="herding:40", head="cosine"), None)
    step = tiny_step(learner, counts, (2, 2), memory="herding:40", head="cosine")
    return step, learner.start(step, first)


def test_the_loss_beside_the_step_before() -> None:
    """Two of four classes are new: the factor of both distillations is the square root of two."""
    step, network = second_step()
    _, other = second_step()
    torch.nn.init.normal_(other.backbone.layers[0].weight)
    batch = TinyBatch(torch.randn(5, 1, 8, 8), torch.tensor([0, 1, 2, 3, 3]))
    for net in (network, other):
        net.eval()
    with torch.no_grad():
        value = PODNet().distilling_loss(step, network, other.backbone)(network, batch, 1)  # type: ignore[arg-type]
        (now, maps), (old, old_maps) = (features_and_maps(net.backbone, batch.images) for net in (network, other))
        cosines = [float(a @ b / (a.norm() * b.norm())) for a, b in zip(now, old, strict=True)]
        kept = 1.0 * (1 - np.mean(cosines)) + 3.0 * float(pooled_outputs(old_maps, maps))
        alone = float(nca_loss(network(batch.images), batch.labels, 0.6))  # the scale is 1 at first
        same = PODNet().distilling_loss(step, network, network.backbone)(network, batch, 1)  # type: ignore[arg-type]
    assert float(value) == pytest.approx(alone + np.sqrt(2) * kept, rel=1e-5)
    assert float(same) == pytest.approx(alone, abs=1e-5)
    assert kept > 0.01


def test_the_margin_does_not_make_the_scale_smaller() -> None:
    """If all classes have equal logits, the scale has no gradient."""
    _, network = second_step()
    with torch.no_grad():
        network.head.weight[:] = network.head.weight[0].clone()
    batch = TinyBatch(torch.randn(3, 1, 8, 8), torch.tensor([0, 1, 2]))
    loss = PODNet().nca(network)(network, batch, 1)
    loss.backward()
    assert loss.item() == pytest.approx(np.log(3) + 0.6)
    assert float(network.head.scale.grad) == pytest.approx(0.0, abs=1e-6)


def test_proxies_of_new_classes_begin_at_centres_of_their_features() -> None:
    step, network = second_step()
    network.eval()
    old = network.head.weight[:2].clone()
    imprint(step, network)  # type: ignore[arg-type]
    assert torch.equal(network.head.weight[:2], old)
    with torch.no_grad():
        features = torch.stack([step.train.read(i) for i in range(18, 20)]).float()  # type: ignore[attr-defined]
        prepared = (features / 255.0 - 0.5) / 0.25
        points = torch.nn.functional.normalize(network.backbone(prepared))
        length = network.head.proxies()[:2].norm(dim=2).mean()
        last = network.head.proxies()[3] / length
    # The class has two images: each is the centre of five of its ten proxies.
    apart = torch.cdist(last, points)
    assert sorted(apart.argmin(dim=1).tolist()) == [0] * 5 + [1] * 5
    assert float(apart.min(dim=1).values.max()) < 1e-3


def test_it_learns_and_resumes(tmp_path: Path) -> None:
    config = digits_config(PODNet(), epochs=4, n_steps=2, batch_size=16, memory="herding:40", head="cosine")
    whole = run_digits(tmp_path / "whole", config, "raw", "nme", per_class=20)
    assert {row.corrector: row.overall > 0.3 for row in whole[-2:]} == {"raw": True, "nme": True}
    for stage in ("step 2 of 2", "step 2 of 2 balanced"):
        with pytest.raises(Interrupted):
            run_digits(
                tmp_path / "stopped", config, "raw", "nme", reporter=StopAt(stage, epoch=1, batch=2), per_class=20
            )
    assert run_digits(tmp_path / "stopped", config, "raw", "nme", per_class=20) == whole
    assert bytes_of_steps(tmp_path / "stopped") == bytes_of_steps(tmp_path / "whole")


def test_old_proxies_stay_until_the_second_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []

    def only_look(_step: object, network: Network, *_: object, **_options: object) -> None:
        found.append(network.head.weight.detach().clone())

    monkeypatch.setattr(podnet, "train_balanced_head", only_look)
    config = digits_config(PODNet(), epochs=1, n_steps=2, batch_size=16, memory="herding:40", head="cosine")
    run_digits(tmp_path, config, per_class=8)
    before = load_file(tmp_path / "step-01" / "network.safetensors")["head.weight"]
    assert torch.equal(found[0][:5], before)
    assert found[0].shape == (10, 640)


@pytest.mark.parametrize("backbone", ["identity", "mlp"])
def test_features_have_no_maps(backbone: str) -> None:
    preset = replace(preset_for("features:x.npz", 3), backbone=backbone)
    config = IncrementalConfig.from_preset(preset, PODNet(), seed=0, memory=MemoryPlan("herding", 20))
    with pytest.raises(EnergyAlignError, match="maps between the stages of a ResNet"):
        PODNet().check(config)


def test_compiled_code_and_no_exemplars_are_refused() -> None:
    config = digits_config(PODNet(), epochs=1, memory="herding:40", head="cosine")
    with pytest.raises(EnergyAlignError, match="leave out --compile"):
        PODNet().check(replace(config, compile=True))
    with pytest.raises(EnergyAlignError, match=r"podnet balances new classes .* memory none"):
        PODNet().check(digits_config(PODNet(), epochs=1, memory="none", head="cosine"))
