"""`--backbone timm:NAME`, `--weights` and `--freeze` as users give them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import timm
import torch
from safetensors.torch import load_file, save_file

from energyalign.cli.main import build_parser, main
from energyalign.cli.sweep import planned_runs
from energyalign.experiments.nets.network import make_network
from energyalign.report.tables import find_table

torch.set_num_threads(1)


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, torch.Tensor]:
    """Save the weights of two networks; return the tensors of timm's network."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(5)
    net = timm.create_model("test_resnet")
    save_file(net.state_dict(), "tiny.safetensors")
    own = make_network("small-cnn", 2, in_channels=1).backbone.state_dict()
    save_file({name: value.contiguous() for name, value in own.items()}, "own.safetensors")
    return dict(net.state_dict())


def test_a_long_tail_on_a_frozen_network_of_timm(
    weights: dict[str, torch.Tensor], capsys: pytest.CaptureFixture[str]
) -> None:
    network = ["--backbone", "timm:test_resnet", "--weights", "tiny.safetensors", "--freeze"]
    options = ["--epochs", "1", "--evidence-size", "2", "--method", "crt", "--corrector", "raw", "ea"]
    assert main(["longtail", "digits", *network, *options]) == 0, capsys.readouterr().err
    folder = "digits-lt-50-epochs-1-backbone-timm-test-resnet-weights-tiny.safetensors-freeze"
    run = Path("runs", folder, "ce-linear", "seed-0")
    config = json.loads((run / "config.json").read_text())
    assert (config["backbone"], config["weights"], config["freeze"]) == ("timm:test_resnet", "tiny.safetensors", True)
    for stage, backbone in ((run, "backbone.backbone"), (run / "crt", "backbone.backbone.backbone")):
        prefix = f"model/{backbone}.net."
        stored = load_file(max((stage / "checkpoints").iterdir()))
        kept = {name.removeprefix(prefix): value for name, value in stored.items() if name.startswith(prefix)}
        assert kept.keys() == {name for name in weights if not name.startswith("fc.")}
        for name, value in kept.items():
            assert torch.equal(value, weights[name]), name
    assert {json.loads(line)["corrector"] for line in (run / "rows.jsonl").read_text().splitlines()} == {
        "crt",
        "raw",
        "ea",
    }
    assert main(["longtail", "digits", "--from", str(run), "--freeze"]) == 2
    assert "is done: leave out --freeze" in capsys.readouterr().err


@pytest.mark.usefixtures("weights")
def test_steps_on_a_frozen_network(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--subset", "first:4", "--steps", "2", "--epochs", "1", "--evidence-size", "5", "--out", "out"]
    network = ["--weights", "own.safetensors", "--freeze"]
    assert main(["incremental", "digits", *options, *network]) == 0, capsys.readouterr().err
    trained = load_file(max(Path("out").glob("**/network.safetensors")))
    kept = load_file("own.safetensors")
    assert kept
    for name, value in kept.items():
        assert torch.equal(trained[f"backbone.backbone.{name}"], value), name
    save_file({name: value + 1 for name, value in kept.items()}, "own.safetensors")
    assert main(["incremental", "digits", *options, *network]) == 2
    assert "the weights in own.safetensors have changed since the run in out" in capsys.readouterr().err


@pytest.mark.usefixtures("weights")
def test_a_sweep_passes_them_on() -> None:
    network = ["--backbone", "timm:test_resnet", "--weights", "tiny.safetensors", "--freeze"]
    words = ["sweep", "longtail", "--cell", "digits-lt-50", "--method", "ce", "--seed", "0", *network]
    (run,), out = planned_runs(build_parser().parse_args(words), find_table("longtail"))
    assert " ".join(network[:4]) in run.command_line
    assert "--freeze" in run.command
    assert (run.config["weights"], run.config["freeze"]) == ("tiny.safetensors", True)
    assert out.name == "sweep-longtail-backbone-timm-test-resnet-weights-tiny.safetensors-freeze"


VIT, OWN = ["--backbone", "timm:test_vit"], ["--weights", "own.safetensors"]
BAD = [
    (["longtail", "digits", "--freeze"], "without weights it is random: give --weights too"),
    (["longtail", "digits", "--weights", "nowhere.pth"], "nowhere.pth is not a file"),
    (["longtail", "digits", "--weights", "default"], "which small-cnn is not: give --backbone torchvision:NAME"),
    (["longtail", "digits", "--method", "bbn", *OWN], "bbn builds its own backbone: leave out --weights"),
    (["longtail", "digits", "--method", "bbn", *VIT], "bbn doubles the last block"),
    (["longtail", "digits", "--corrector", "oltr", *VIT], "timm:test_vit returns only features"),
    (["longtail", "digits", "--corrector", "oltr", "--freeze", *OWN], "--freeze freezes it: leave out oltr"),
    (["incremental", "digits", "--method", "rps", *VIT], "a network of its own, not timm:test"),
    (["incremental", "digits", "--method", "wa", *VIT], "wa clips weights at 0, which needs"),
    (["incremental", "digits", "--backbone", "timm:test_vti"], "unknown backbone 'timm:test_vti'"),
    (
        ["sweep", "longtail", "--cell", "digits-lt-50", "--weights", "nowhere.pth"],
        "nowhere.pth is not a file",
    ),
]


@pytest.mark.usefixtures("weights")
@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[message for _, message in BAD])
def test_what_does_not_fit_is_refused_before_training(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
    assert not Path("runs").exists()
