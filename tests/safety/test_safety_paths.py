"""Paths in a file never leave the folder that the user named."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from imagenet_tree import make_imagenet_tree
from table_rows import long_tail_row
from torch import nn

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.download import unpack
from energyalign.experiments.data.sources.imagenet import ImageNet
from energyalign.experiments.data.sources.lists import any_lists
from energyalign.experiments.engine.row import Row
from energyalign.experiments.incremental.step import _checksum, load_step
from energyalign.experiments.nets.network import Network
from energyalign.experiments.train.run_directory import RunDirectory
from energyalign.files import open_shards

pytestmark = pytest.mark.promise("A hostile file cannot run code, escape its folder or exhaust memory", "hostile files")

OUTSIDE = ["../secret", "/etc/passwd", "a/../../secret", "a\0b"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Make a folder beside a secret."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.mark.parametrize("path", OUTSIDE)
def test_lists_of_images(data: Path, path: str) -> None:
    (data / "train.txt").write_text(f"a.png 0\n{path} 1\n")
    with pytest.raises(EnergyAlignError, match=r"train\.txt, line 2: paths must be below the data root, got "):
        any_lists(data).load("train")


@pytest.mark.parametrize("path", OUTSIDE)
def test_the_list_of_imagenet(data: Path, path: str) -> None:
    make_imagenet_tree(data, n_classes=2, per_class=1, flat_val=True)
    (data / "val.txt").write_text(f"{path} 1\n")
    with pytest.raises(EnergyAlignError, match=r"val\.txt, line 1: paths must be below the data root, got "):
        ImageNet(data).load("test")


def archive_of(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(bytes(member.size)))
    return path


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
@pytest.mark.parametrize("target", ["../secret", "/etc/passwd"])
def test_members_of_an_archive_that_are_no_files(data: Path, kind: bytes, target: str) -> None:
    member = tarfile.TarInfo("set/a.bin")
    member.type, member.linkname = kind, target
    archive = archive_of(data / "set.tar.gz", member)
    with pytest.raises(EnergyAlignError, match=r"cannot unpack .*set\.tar\.gz"):
        unpack(archive, ["set/a.bin"], data / "out")
    assert not [path for path in (data / "out").rglob("*") if not path.is_dir()]


def test_members_that_were_not_asked_for_stay_in_the_archive(data: Path) -> None:
    members = [tarfile.TarInfo(name) for name in ("set/a.bin", "../evil", "/evil", "set/../../evil", "set/other")]
    for member in members:
        member.size = 3
    unpack(archive_of(data / "set.tar.gz", *members), ["set/a.bin"], data / "out")
    assert [path.name for path in (data / "out").rglob("*") if path.is_file()] == ["a.bin"]
    assert not list(data.parent.rglob("evil"))


@pytest.mark.parametrize("fortran", [False, True])
def test_members_of_npz_are_arrays_whatever_their_names(data: Path, fortran: bool) -> None:
    stream = io.BytesIO()
    np.save(stream, np.asarray([[0.5, 1.5], [2.5, 3.5]], order="F" if fortran else "C"))
    with zipfile.ZipFile(data / "a.npz", "w") as archive:
        archive.writestr("../../evil.npy", stream.getvalue())
    before = sorted(data.parent.rglob("*"))
    (block,) = open_shards([data / "a.npz"]).blocks()
    assert block.tolist() == [[0.5, 1.5], [2.5, 3.5]]
    assert sorted(data.parent.rglob("*")) == before


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd"])
def test_the_state_of_a_step_names_no_files(data: Path, name: str) -> None:
    folder = data / "step-01"
    folder.mkdir()
    state = {"memory": {}, "sha256": {name: "0"}}
    checksum = _checksum(state, RunDirectory(data))
    (folder / "state.json").write_text(json.dumps(state | {"checksum": checksum}))
    with pytest.raises(EnergyAlignError, match="step-01 cannot be read") as raised:
        load_step(RunDirectory(data), 1, Network(nn.Flatten(), nn.Linear(2, 2)))
    assert name not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "blamed"),
    [
        ({"corrector": "../../secret"}, "corrector must be a name"),
        ({"corrector": "a/b"}, "corrector must be a name"),
        ({"corrector": "a\0b"}, "corrector must be a name"),
        ({"evidence": {"policy": "../one", "per_class": 5}}, "unknown evidence policy"),
        ({"evidence": {"policy": "one", "per_class": "../5"}}, "evidence.per_class must be a whole number"),
    ],
)
def test_rows_name_no_folders(change: dict[str, object], blamed: str) -> None:
    """Names of correctors and policies are parts of file names."""
    row = long_tail_row("ea", "cifar10-lt-100", 0.5)
    assert Row.from_json(row.to_json(), "rows.jsonl") == row
    with pytest.raises(EnergyAlignError, match=rf"rows\.jsonl was changed, or is from another version.*: .*{blamed}"):
        Row.from_json(row.to_json() | change, "rows.jsonl")
