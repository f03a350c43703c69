"""Runs on features: both applications, every kind of corrector, resumed with equal bytes."""

from __future__ import annotations

import numpy as np
import pytest

from energyalign.cli.main import main
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.stored import load_rows
from energyalign.experiments.longtail.config import LongTailRequest


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Write features of six classes around different means."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(6, 8))

    def part(per_class):
        labels = np.repeat(np.arange(6), per_class)
        return (means[labels] + 0.8 * rng.normal(size=(len(labels), 8))).astype(np.float32), labels

    (x_train, y_train), (x_test, y_test) = part(40), part(30)
    path = tmp_path_factory.mktemp("features") / "x.npz"
    np.savez(path, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    return path


def rows(folder, *arguments):
    assert main([*arguments, "--out", str(folder)]) == 0
    return {(row.learner, row.corrector, row.step): row for row in load_rows(folder)}


@pytest.mark.parametrize("backbone", ["identity", "mlp"])
def test_a_long_tail_of_features_has_the_rows_of_images(file, tmp_path, backbone):
    correctors = ("raw", "logit-adjustment", "ea", "ea-marginal", "ea-auto", "ncm", "tau-norm", "crt", "lws", "tde",
                  "disalign", "mislas")  # fmt: skip
    found = rows(
        tmp_path, "longtail", f"features:{file}", "--imbalance", "20", "--epochs", "5", "--backbone", backbone,
        "--method", "ce", "mixup", "ldam-drw", "la-loss", "--corrector", *correctors,
    )  # fmt: skip
    assert {corrector for _, corrector, _ in found} == set(correctors)
    assert found["ce", "ea", 1].evidence == EvidencePlan(50, "mixup")
    assert found["ce", "raw", 1].counts == (40, 21, 12, 6, 3, 2)
    assert found["ce", "logit-adjustment", 1].few > found["ce", "raw", 1].few


def test_classes_of_features_come_in_steps(file, tmp_path):
    found = rows(
        tmp_path, "incremental", f"features:{file}", "--steps", "3", "--epochs", "5", "--method", "ea", "icarl",
    )  # fmt: skip
    assert {step for _, _, step in found} == {1, 2, 3}
    assert found["distill", "ea", 3].evidence == EvidencePlan(50, "mixup")


def test_weight_aligning_needs_features_that_are_not_negative(file, tmp_path, capsys):
    command = ["incremental", f"features:{file}", "--steps", "3", "--epochs", "1", "--method", "wa"]
    assert main([*command, "--out", str(tmp_path)]) == 2
    assert "or mlp on features" in capsys.readouterr().err
    assert main([*command, "--out", str(tmp_path), "--backbone", "mlp"]) == 0


@pytest.mark.parametrize("command", [("longtail", "--imbalance", "20"), ("incremental", "--steps", "2")])
def test_a_moved_and_renamed_file_resumes_its_runs(command, file, tmp_path, capsys):
    application, *options = command
    before = [application, f"features:{file}", *options, "--epochs", "1", "--corrector", "raw", "--out"]
    assert main([*before, str(tmp_path / "runs")]) == 0
    run = next((tmp_path / "runs").glob("*/seed-0"))
    config = (run / "config.json").read_bytes()
    moved = tmp_path / "renamed.npz"
    moved.write_bytes(file.read_bytes())
    after = [f"features:{moved}" if word.startswith("features:") else word for word in before]

    assert main([*after, str(tmp_path / "runs")]) == 0
    assert main([application, f"features:{moved}", "--from", str(run), "--corrector", "ncm"]) == 0
    cell = "features-x-npz-lt-20" if application == "longtail" else "features-x-npz-il-2"
    assert {(row.cell, row.corrector) for row in load_rows(run)} == {(cell, "raw"), (cell, "ncm")}
    assert main(["table", application, str(run)]) == 0  # the rows are of one config
    assert (run / "config.json").read_bytes() == config

    arrays = dict(np.load(file))
    np.savez(moved, **arrays | {"x_train": arrays["x_train"] + 1})
    capsys.readouterr()
    assert main([*after, str(tmp_path / "runs")]) == 2
    assert "what differs: images_sha256" in capsys.readouterr().err


def test_every_policy_of_features_can_be_asked_for_and_those_of_images_cannot(file):
    request = LongTailRequest(dataset=f"features:{file}", evidence_policy=("none", "noise", "mixup"))
    assert [plan.policy for plan in request.evidence_plans] == ["none", "noise", "mixup"]
    with pytest.raises(EnergyAlignError, match="'one' is not for features"):
        _ = LongTailRequest(dataset=f"features:{file}", evidence_policy=("one",)).evidence_plans
    with pytest.raises(EnergyAlignError, match="'noise' is not for images"):
        _ = LongTailRequest(dataset="digits", evidence_policy=("noise",)).evidence_plans


@pytest.mark.parametrize(
    ("dataset", "options", "problem"),
    [
        (
            "features:x.npz",
            {"backbone": "resnet32"},
            "features:x.npz needs identity or mlp, but ce would train resnet32",
        ),
        (
            "features:x.npz",
            {"method": ("bbn",)},
            "features:x.npz needs identity or mlp, but bbn would train identity-bbn",
        ),
        ("digits", {"backbone": "mlp"}, "digits needs a backbone for images, but ce would train mlp"),
    ],
)
def test_networks_that_do_not_fit_are_refused_before_anything_is_read(dataset, options, problem):
    with pytest.raises(EnergyAlignError, match=problem):
        LongTailRequest(dataset=dataset, **options).plan()
