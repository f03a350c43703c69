"""Experiments from Python."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import energyalign.experiments as ea
from energyalign.cli.main import main
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.stored import load_rows


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return ea.longtail(
        "digits",
        correctors=["raw", "ea"],
        seeds=range(2),
        epochs=2,
        out=tmp_path_factory.mktemp("runs"),
        progress=False,
    )  # fmt: skip


def test_rows_are_those_of_the_command_line(results, tmp_path):
    assert main(["longtail", "digits", "--corrector", "raw", "ea", "--epochs", "2", "--out", str(tmp_path)]) == 0
    of_command = {row.corrector: row for row in load_rows(tmp_path)}
    for row in results.rows:
        if row.seed == 0:
            assert row.per_class == of_command[row.corrector].per_class
            assert row.network_sha256 == of_command[row.corrector].network_sha256


@pytest.mark.promise("No name can control the terminal or cause a traceback", "hostile names")
def test_names_do_not_control_the_terminal(tmp_path, capfd):
    copy = "\x1b]52;c;ZXZpbA==\x07"  # puts "evil" into the clipboard
    labels = np.repeat(np.array([f"cat{copy}", f"dog{copy}", f"cow{copy}"]), [40, 8, 2])
    features = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    np.savez(tmp_path / f"{copy}.npz", x_train=features, y_train=labels, x_test=features, y_test=labels)
    source, out = f"features:{tmp_path / copy}.npz", tmp_path / f"runs{copy}"
    results = ea.longtail(source, correctors=["raw", "ea"], epochs=1, out=out)
    print(results)
    told = "".join(capfd.readouterr())
    assert "effective samples (cat" in told
    assert not set(told) & {"\x1b", "\x07"}


def test_results_as_a_frame_a_table_and_a_figure(results):
    assert results.frame[["corrector", "seed"]].values.tolist() == [["raw", 0], ["ea", 0], ["raw", 1], ["ea", 1]]
    assert "logit" not in repr(results)
    assert "ea" in repr(results)
    assert len(results.figure("groups").axes) > 0
    figure = results.where(seed=0).figure("matrix", rows=["r*", "ea"], width="column", font_size=7, title="")
    assert (figure.get_figwidth(), figure.get_suptitle()) == (3.25, "")
    assert len(figure.axes[0].texts) == 2
    assert [run.path for run in results.runs] == list(results.folders)


def test_a_part_of_the_results(results):
    part = results.where(seed=1).where(corrector=["ea", "wa"])
    assert part.frame[["corrector", "seed"]].values.tolist() == [["ea", 1]]
    assert [[row.corrector for row in run.rows] for run in part.runs] == [["ea"]]
    assert results.where(seed=0).compare("raw", "ea").shape[0] == 1
    with pytest.raises(EnergyAlignError, match="no row has seed=0: choose seed from 1"):
        part.where(seed=0)


def test_figures_and_comparisons_have_the_rows_of_the_results_and_no_others_of_the_folder(tmp_path):
    settings = {"epochs": 1, "out": tmp_path, "progress": False}
    every = ea.longtail("digits", correctors=["raw", "ea", "ncm"], **settings)
    some = ea.longtail("digits", correctors=["raw", "ea"], evidence_policy=["none"], evidence_size=[5], **settings)
    for results in (every, some):
        (run,) = results.runs
        assert run.rows == sorted(results.rows, key=lambda row: row.key)
    assert len(some.figure("matrix").axes[0].texts) == 2
    with pytest.raises(EnergyAlignError, match=r"rows of raw and ncm, got rows of raw, ea\."):
        some.compare("raw", "ncm")


def test_two_correctors_are_compared_over_images_and_seeds(results):
    frame = results.compare("raw", "ea")
    balanced = results.frame.pivot_table("balanced", "seed", "corrector") * 100
    gains = balanced["ea"] - balanced["raw"]
    assert frame["B - A"].iloc[:2].tolist() == pytest.approx(gains.tolist())
    assert frame["B - A"].iloc[-1] == pytest.approx(gains.mean())
    assert (frame["95 % interval, from"] <= frame["B - A"]).all()


def test_own_arrays_of_images_and_of_features(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.array(["cat", "dog", "owl"])[np.repeat([0, 1, 2], [20, 10, 5])]
    shade = {"cat": 20, "dog": 120, "owl": 220}
    images = np.clip(np.array([shade[label] for label in labels])[:, None, None] + rng.normal(0, 9, (35, 8, 8)), 0, 255)
    data = ea.arrays(images.astype(np.uint8), labels, name="shades")
    of_images = ea.longtail(
        data, correctors=["raw", "ea"], epochs=2, backbone="small-cnn", out=tmp_path / "images", progress=False
    )
    assert {row.cell for row in of_images.rows} == {"images-shades"}
    assert of_images.runs[0].class_names == ("cat", "dog", "owl")
    vectors = images.reshape(35, -1).astype(np.float32)
    of_features = ea.incremental(
        ea.arrays(vectors, labels), steps=2, epochs=2, out=tmp_path / "features", progress=False
    )
    assert {row.step for row in of_features.rows} == {1, 2}


def test_an_own_network(tmp_path):
    from energyalign.experiments.nets import registry

    class Small(torch.nn.Module):
        n_features = 6

        def __init__(self, in_channels):
            super().__init__()
            self.layer = torch.nn.Linear(in_channels * 64, self.n_features)

        def forward(self, images):
            return self.layer(images.flatten(1)).relu()

    ea.register_backbone("small", Small)
    try:
        results = ea.longtail("digits", correctors=["raw"], epochs=2, backbone="small", out=tmp_path, progress=False)
        assert results.rows[0].config.backbone == "small"
        with pytest.raises(EnergyAlignError, match="cannot register a backbone 'small'"):
            ea.register_backbone("small", Small)
        with pytest.raises(EnergyAlignError, match=r"unknown backbone 'smal': choose .*, mlp, small, or any network"):
            ea.longtail("digits", correctors=["raw"], backbone="smal", out=tmp_path / "other", progress=False)
    finally:
        del registry.BACKBONES["small"]


def test_an_own_network_on_own_features(tmp_path):
    from energyalign.experiments.nets import registry

    labels = np.repeat(["cat", "dog"], [12, 6])
    data = ea.arrays(np.random.default_rng(0).normal(size=(18, 4)), labels)

    def make(in_channels):
        layer = torch.nn.Linear(in_channels, 5)
        layer.n_features = 5
        return layer

    ea.register_backbone("of-images", make)
    ea.register_backbone("of-features", make, takes_features=True)
    settings = {"correctors": ["raw"], "epochs": 1, "progress": False}
    try:
        results = ea.longtail(data, backbone="of-features", out=tmp_path / "run", **settings)
        assert results.rows[0].config.backbone == "of-features"
        with pytest.raises(EnergyAlignError, match="would train of-images: register it with takes_features=True, or"):
            ea.longtail(data, backbone="of-images", out=tmp_path / "none", **settings)
        with pytest.raises(EnergyAlignError, match="train of-features: register it with takes_features=False, or"):
            ea.longtail("digits", backbone="of-features", out=tmp_path / "none", **settings)
    finally:
        del registry.BACKBONES["of-images"], registry.BACKBONES["of-features"]


def test_what_is_in_the_folder_is_not_run_again(results, monkeypatch):
    from energyalign.experiments.train.loop import TrainingLoop

    monkeypatch.setattr(TrainingLoop, "_epoch", lambda *_: pytest.fail("trained again"))
    again = ea.longtail(
        "digits", correctors=["raw", "ea"], seeds=range(2), epochs=2, out=results.folders[0].parents[1], progress=False
    )
    assert again.rows == results.rows


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"imbalanc": 10}, "unknown option 'imbalanc'"),
        ({"method": ["ce"]}, "'method': choose one of methods, correctors, seeds, out, progress, quick, epochs"),
        ({"correctors": "raw"}, r"correctors must be a list, got 'raw': write \['raw'\]"),
        ({"devices": 2}, "unknown option 'devices'"),
        ({"seeds": 0}, r"seeds must be a list, got 0: write \[0\]"),
        ({"seeds": [0.5]}, r"seeds must be a whole number, got 0\.5"),
        ({"epochs": "3"}, "epochs must be a whole number, got '3'"),
        ({"imbalance": True}, "imbalance must be a number, got True"),
        ({"evidence_size": 20}, r"evidence_size must be a list, got 20: write \[20\]"),
        ({"evidence_policy": "one"}, r"evidence_policy must be a list, got 'one': write \['one'\]"),
    ],
)
def test_wrong_settings_are_named(settings, problem):
    with pytest.raises(EnergyAlignError, match=problem):
        ea.longtail("digits", **settings)


@pytest.mark.parametrize("shape", [(4, 8), (4, 5, 8, 8)])
def test_arrays_that_are_neither_images_nor_features_are_refused(shape):
    source = ea.arrays(np.zeros(shape, dtype=np.uint8), np.array([0, 0, 1, 1]))
    with pytest.raises(EnergyAlignError, match=r"got uint8 of shape"):
        source.load("train")


def test_arrays_with_other_numbers_of_labels_are_refused_at_once():
    with pytest.raises(EnergyAlignError, match=r"x_train and y_train .* equally many samples, got the shapes \(4, 8\)"):
        ea.arrays(np.zeros((4, 8)), np.array([0, 1, 1]))
    with pytest.raises(EnergyAlignError, match="x_test and y_test must have equally many samples"):
        ea.arrays(np.zeros((4, 8)), np.arange(4), np.zeros((2, 8)), np.arange(3))


def test_a_backbone_that_cannot_be_called_is_refused_at_once():
    with pytest.raises(EnergyAlignError, match="make must be a class or function that returns a network, got 3"):
        ea.register_backbone("x", 3)
