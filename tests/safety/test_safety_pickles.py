"""A pickle in place of any of our files is refused by name, and its code is not run."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from trap import Trap, pickled_trap

from energyalign.cli.main import main
from energyalign.core.errors import EnergyAlignError
from energyalign.core.shifts import Shifts
from energyalign.experiments.data.manifest import Manifest
from energyalign.experiments.data.sources import open_source
from energyalign.experiments.train.checkpoint import newest_checkpoint
from energyalign.experiments.train.run_directory import RunDirectory
from energyalign.experiments.train.tensor_file import load_arrays
from energyalign.files import open_shards

pytestmark = pytest.mark.promise("A hostile file cannot run code, escape its folder or exhaust memory", "hostile files")


def bare(path: Path, sprung: Path) -> None:
    path.write_bytes(pickled_trap(sprung))


def as_torch_saves(path: Path, sprung: Path) -> None:
    torch.save({"state_dict": Trap(sprung)}, path)


def as_torch_saved_once(path: Path, sprung: Path) -> None:
    torch.save(Trap(sprung), path, _use_new_zipfile_serialization=False)


def as_an_array(path: Path, sprung: Path) -> None:
    with path.open("wb") as stream:
        np.save(stream, np.array([[Trap(sprung)] * 3], dtype=object), allow_pickle=True)


def as_an_archive(path: Path, sprung: Path) -> None:
    with path.open("wb") as stream:
        np.savez(stream, logits=np.array([[Trap(sprung)] * 3], dtype=object))


CRAFTED = [bare, as_torch_saves, as_torch_saved_once, as_an_array, as_an_archive]

READERS: dict[str, Callable[[Path], object]] = {
    "shifts.json": Shifts.load,
    "manifest.json": Manifest.load,
    "config.json": lambda path: RunDirectory(path.parent).read_json(path.name),
    "rows.jsonl": lambda path: RunDirectory(path.parent).read_rows(),
    "epoch-00001-batch-000000.safetensors": lambda path: newest_checkpoint(path.parent, ""),
    "test_logits.safetensors": load_arrays,
    **{f"logits.{ending}": lambda path: open_shards([path]) for ending in ("npy", "npz", "parquet", "csv")},
}


@pytest.mark.parametrize("craft", CRAFTED)
def test_every_trap_works(tmp_path: Path, craft: Callable[[Path, Path], None]) -> None:
    craft(tmp_path / "file", tmp_path / "made")
    if craft in (as_an_array, as_an_archive):
        loaded = np.load(tmp_path / "file", allow_pickle=True)
        _ = loaded["logits"] if craft is as_an_archive else loaded
    elif craft is bare:
        pickle.loads((tmp_path / "file").read_bytes())
    else:
        torch.load(tmp_path / "file", weights_only=False)
    assert (tmp_path / "made").exists()


@pytest.mark.parametrize("craft", CRAFTED)
@pytest.mark.parametrize("name", READERS)
def test_a_pickle_under_a_name_of_ours(
    tmp_path: Path, sprung: Path, name: str, craft: Callable[[Path, Path], None]
) -> None:
    craft(tmp_path / name, sprung)
    with pytest.raises(EnergyAlignError, match=name.replace(".", r"\.")):
        READERS[name](tmp_path / name)


@pytest.mark.parametrize("ending", ["pt", "pth", "pkl", "ckpt", "joblib"])
@pytest.mark.parametrize(
    "command",
    [
        ["fit", "FILE", "--out", "OUT"],
        ["fit", "GOOD", "--labels", "FILE", "--out", "OUT"],
        ["fit", "GOOD", "--counts", "FILE", "--out", "OUT"],
        ["fit", "GOOD", "--target-prior", "FILE", "--out", "OUT"],
        ["apply", "GOOD", "--shifts", "FILE", "--out", "OUT"],
        ["apply", "FILE", "--shifts", "FILE", "--out", "OUT"],
        ["onnx", "FILE", "--shifts", "FILE", "--out", "OUT"],
        ["report", "FILE", "--out", "OUT"],
        ["longtail", "digits", "--profile", "FILE", "--out", "OUT"],
    ],
    ids=" ".join,
)
def test_a_pickle_given_to_a_command(
    tmp_path: Path, sprung: Path, capsys: pytest.CaptureFixture[str], command: list[str], ending: str
) -> None:
    given = {"FILE": str(tmp_path / f"model.{ending}"), "GOOD": str(tmp_path / "a.npy"), "OUT": str(tmp_path / "out")}
    np.save(given["GOOD"], np.random.default_rng(0).normal(size=(8, 3)))
    as_torch_saves(Path(given["FILE"]), sprung)
    assert main([given.get(word, word) for word in command]) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith("energyalign: error: ")
    assert "model." in complaint
    assert not Path(given["OUT"]).exists()


def test_a_pickled_extension_type_in_parquet(tmp_path: Path, sprung: Path) -> None:
    """Older versions of pyarrow unpickled extension types on sight of their name."""
    column = pa.field("logits", pa.list_(pa.float32()), metadata={
        "ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": pickled_trap(sprung),
    })  # fmt: skip
    table = pa.table([pa.array([[0.5, 1.5], [2.5, 3.5]], column.type)], schema=pa.schema([column]))
    pq.write_table(table, tmp_path / "a.parquet")
    assert [block.tolist() for block in open_shards([tmp_path / "a.parquet"]).blocks()] == [[[0.5, 1.5], [2.5, 3.5]]]


def test_pandas_metadata_in_parquet_is_not_evaluated(tmp_path: Path, sprung: Path) -> None:
    table = pa.table({"a": [0.5], "b": [1.5]}).replace_schema_metadata({"pandas": pickled_trap(sprung)})
    pq.write_table(table, tmp_path / "a.parquet")
    assert open_shards([tmp_path / "a.parquet"]).n_rows == 1


@pytest.mark.parametrize(("name", "folder"), [("cifar10", "cifar-10-batches-py"), ("cifar100", "cifar-100-python")])
def test_cifar_in_its_python_version(tmp_path: Path, sprung: Path, name: str, folder: str) -> None:
    (tmp_path / folder).mkdir()
    for file in ("data_batch_1", "train", "test", "meta", "batches.meta"):
        bare(tmp_path / folder / file, sprung)
    for root in (tmp_path, tmp_path / folder):
        with pytest.raises(EnergyAlignError, match="set of pickles, which are never loaded"):
            open_source(name, root).load("train")


def test_cifar_of_pickles_under_the_binary_names(tmp_path: Path, sprung: Path) -> None:
    (tmp_path / "cifar-100-binary").mkdir()
    for file in ("train.bin", "test.bin"):
        bare(tmp_path / "cifar-100-binary" / file, sprung)
    with pytest.raises(EnergyAlignError, match=r"train\.bin must have [\d,]+ bytes, got"):
        open_source("cifar100", tmp_path).load("train")


def test_a_checkpoint_that_is_a_zip_with_a_pickle(tmp_path: Path, sprung: Path) -> None:
    path = tmp_path / "epoch-00001-batch-000000.safetensors"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickled_trap(sprung))
    with pytest.raises(EnergyAlignError, match=r"no checkpoint in .* can be used"):
        newest_checkpoint(tmp_path, "")
