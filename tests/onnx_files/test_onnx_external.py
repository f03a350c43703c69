"""Models with external data."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.external_data_helper import ExternalDataInfo
from onnx.helper import make_node

from energyalign.onnx.model_file import external_files, write_model

CHANGES = 3  # the data is renamed, then the model, then the old data is removed
KILLED = """
import os, signal, sys
from energyalign import Shifts
from energyalign.onnx import align_onnx

left = int(sys.argv[1])

def killed_before(change):
    def changed(*arguments, **options):
        global left
        if "part" in str(arguments[0]) or "aligned" in str(arguments[0]):  # not a temporary file elsewhere
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
        return change(*arguments, **options)
    return changed

os.replace, os.unlink = killed_before(os.replace), killed_before(os.unlink)
align_onnx("model.onnx", Shifts.load("shifts.json"), "aligned.onnx")
"""

TRUNCATED = """
import os
from energyalign import Shifts
from energyalign.onnx import align_onnx, runtime

def truncating(self, inputs):
    os.truncate("weights.bin", 0)
    return run(self, inputs)

run, runtime.Session.run = runtime.Session.run, truncating
try:
    align_onnx("model.onnx", Shifts.load("shifts.json"), "aligned.onnx")
except ValueError as error:
    print(error)
"""


def externalise(shop: Any, *, location: str | None = "weights.bin", attributes: bool = False) -> None:
    """Move all numbers of the model to one external file, or to one per tensor if no location is given."""
    onnx.save_model(
        onnx.load(shop.source),
        shop.source,
        save_as_external_data=True,
        all_tensors_to_one_file=location is not None,
        location=location,
        size_threshold=0,
        convert_attribute=attributes,
    )


@pytest.fixture
def external(workshop: Any) -> Any:
    """Make a Gemm whose weights and bias are in weights.bin."""
    constants = {"W": workshop.normal(5, 4), "b": workshop.normal(4)}
    workshop.save([make_node("Gemm", ["x", "W", "b"], ["y"], "head")], constants)
    externalise(workshop)
    return workshop


def relocated(shop: Any, location: str) -> None:
    """Set the location of the weights."""
    model = onnx.load(shop.source, load_external_data=False)
    model.graph.initializer[0].external_data[0].value = location
    onnx.save(model, shop.source)


def data_files(folder: Path) -> list[Path]:
    """Return the data files beside aligned.onnx, which are named after their hash."""
    found = sorted(folder.glob("aligned.onnx.*"))
    for path in found:
        assert path.name == f"aligned.onnx.{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}.data"
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_model_and_data_are_written_side_by_side(external: Any, tmp_path: Path) -> None:
    done = external.align()
    assert (done.how, done.constant) == ("folded", "b")
    assert done.files == (external.out, *data_files(tmp_path))
    external.assert_shifted()


def test_the_pair_stands_on_its_own(external: Any, tmp_path: Path, run_model: Any) -> None:
    external.align()
    x = external.normal(3, 5)
    raw = run_model(external.source, {"x": x})["y"]
    away = tmp_path / "away"
    away.mkdir()
    for path in (external.out, *data_files(tmp_path)):
        shutil.move(path, away)
    for name in ("model.onnx", "weights.bin"):
        (tmp_path / name).unlink()
    aligned = run_model(away / "aligned.onnx", {"x": x})["y"]
    np.testing.assert_allclose(aligned, raw + external.shifts.values, atol=1e-5)


def test_several_data_files_become_one_with_tensors_on_pages(workshop: Any, tmp_path: Path) -> None:
    nodes = [make_node("Gemm", ["x", "V", "c"], ["h"]), make_node("Relu", ["h"], ["r"]), make_node(
        "Gemm", ["r", "W", "b"], ["y"])]  # fmt: skip
    constants = {
        "V": workshop.normal(5, 8),
        "c": workshop.normal(8),
        "W": workshop.normal(8, 4),
        "b": workshop.normal(4),
    }
    workshop.save(nodes, constants)
    externalise(workshop, location=None)
    workshop.align()
    workshop.assert_shifted()
    tensors = onnx.load(workshop.out, load_external_data=False).graph.initializer
    found = {tensor.name: ExternalDataInfo(tensor) for tensor in tensors if tensor.external_data}
    (data,) = data_files(tmp_path)
    assert {info.location for info in found.values()} == {data.name}
    assert {name: info.offset for name, info in found.items()} == {"V": 0, "c": 4096, "W": 8192}
    assert data.read_bytes()[8192:] == constants["W"].tobytes()


def test_a_constant_node_may_have_its_data_elsewhere_too(workshop: Any) -> None:
    bias = onnx.numpy_helper.from_array(workshop.normal(4))
    nodes = [make_node("Constant", [], ["b"], value=bias), make_node("Gemm", ["x", "W", "b"], ["y"])]
    workshop.save(nodes, {"W": workshop.normal(5, 4)})
    externalise(workshop, attributes=True)
    assert onnx.load(workshop.source, load_external_data=False).graph.node[0].attribute[0].t.external_data
    assert workshop.align().how == "folded"
    workshop.assert_shifted()


@pytest.mark.parametrize(
    "out",
    ["model.onnx", "link.onnx", "weights.bin"],
    ids=["in place", "in place, through a link", "over the data"],
)
def test_what_would_destroy_the_model_itself_is_refused(external: Any, tmp_path: Path, out: str) -> None:
    if out == "link.onnx":
        (tmp_path / out).symlink_to("model.onnx")
    before = contents(tmp_path)
    external.out = tmp_path / out
    with pytest.raises(ValueError, match=rf"{out} is the same file as the input .*another name"):
        external.align()
    assert contents(tmp_path) == before


def outside(shop: Any) -> None:
    (shop.folder.parent / "secret").write_bytes(bytes(200))
    relocated(shop, "../secret")


def absolute(shop: Any) -> None:
    relocated(shop, "/etc/hostname")


def linked(shop: Any) -> None:
    elsewhere = shop.folder.parent / "elsewhere.bin"
    shutil.move(shop.folder / "weights.bin", elsewhere)
    (shop.folder / "weights.bin").symlink_to(elsewhere)


def missing(shop: Any) -> None:
    (shop.folder / "weights.bin").unlink()


def truncated(shop: Any) -> None:
    os.truncate(shop.folder / "weights.bin", 70)


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (outside, r"'\.\./secret', which is outside the model's folder"),
        (absolute, "'/etc/hostname', which is outside the model's folder"),
        (linked, r"'weights\.bin', which is outside the model's folder"),
        (missing, r"'weights\.bin', which is missing: put the complete data file into the folder of the model"),
        (truncated, r"'weights\.bin', which is too short"),
    ],
)
def test_data_that_must_not_or_cannot_be_read(external: Any, tmp_path: Path, spoil: Any, named: str) -> None:
    spoil(external)
    external.out.write_bytes(b"old model")
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=rf"model\.onnx keeps tensor '\w' in {named}"):
        external.align()
    assert contents(tmp_path) == before


def rewrite(shop: Any) -> None:
    """Align, then change every weight of the source."""
    shop.align()
    weights = np.frombuffer((shop.folder / "weights.bin").read_bytes(), dtype="float32")
    (shop.folder / "weights.bin").write_bytes((-3 * weights).tobytes())


def test_old_data_goes_with_the_old_model_and_nothing_else_goes(external: Any, tmp_path: Path) -> None:
    rewrite(external)
    (old,) = data_files(tmp_path)
    (tmp_path / "other.onnx.0123456789abcdef.data").write_bytes(b"of another model")
    done = external.align()
    assert data_files(tmp_path) == [done.files[1]] != [old]
    assert (tmp_path / "other.onnx.0123456789abcdef.data").exists()
    external.assert_shifted()
    assert external.align().files == done.files  # same content, same name
    external.assert_shifted()


def test_data_that_a_copy_of_the_old_model_uses_is_kept(external: Any, tmp_path: Path, run_model: Any) -> None:
    rewrite(external)
    (old,) = data_files(tmp_path)
    shutil.copy(external.out, tmp_path / "backup.onnx")
    external.align()
    assert old.exists()
    run_model(tmp_path / "backup.onnx", {"x": external.normal(3, 5)})
    external.assert_shifted()


def test_data_that_the_source_shares_with_the_old_result_is_kept(external: Any, tmp_path: Path) -> None:
    """A result without its metadata note is a source like any other."""
    external.align()
    (shared,) = data_files(tmp_path)
    model = onnx.load(external.out, load_external_data=False)
    del model.metadata_props[:]
    onnx.save(model, external.source)
    (tmp_path / "weights.bin").unlink()
    external.align()
    assert shared.exists()
    external.assert_shifted()


@pytest.mark.promise("A killed command leaves every file either unchanged or complete", "kills")
@pytest.mark.parametrize("moment", range(CHANGES + 1))
def test_killed_between_any_two_changes_of_the_folder_a_whole_model_is_there(
    external: Any, moment: int, tmp_path: Path, run_model: Any, trials: Callable[[int], None]
) -> None:
    """The child is killed right before change number `moment`: a rename or the removal of a file."""
    trials(int(moment < CHANGES))
    rewrite(external)
    x = {"x": external.normal(3, 5)}
    old = run_model(external.out, x)["y"]
    new = run_model(external.source, x)["y"] + external.shifts.values
    assert np.abs(old - new).max() > 0.1
    external.shifts.save(tmp_path / "shifts.json")
    child = subprocess.run([sys.executable, "-c", KILLED, str(moment)], cwd=tmp_path, check=False)
    assert child.returncode == (-signal.SIGKILL if moment < CHANGES else 0)
    found = run_model(external.out, x)["y"]
    np.testing.assert_allclose(found, old if moment < CHANGES - 1 else new, atol=1e-4)


def test_a_link_would_part_a_model_from_its_data(external: Any, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    external.out.symlink_to(tmp_path / "elsewhere" / "real.onnx")
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"aligned\.onnx must not be a symbolic link, .*: give the file"):
        external.align()
    assert contents(tmp_path) == before
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.promise("An input that changes while it is read is detected", "changes")
def test_data_that_changes_after_it_was_verified(
    external: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other weights under the bias of the old ones would be an unverified model."""
    external.out.write_bytes(b"old model")
    before = contents(tmp_path)

    def write_late(*arguments: Any) -> Any:
        (tmp_path / "weights.bin").write_bytes(bytes(len(before["weights.bin"])))
        return write_model(*arguments)

    monkeypatch.setattr("energyalign.onnx.align.write_model", write_late)
    with pytest.raises(ValueError, match=r"weights\.bin changed while it was read"):
        external.align()
    assert contents(tmp_path) == before | {"weights.bin": bytes(len(before["weights.bin"]))}


@pytest.mark.promise("An input that changes while it is read is detected", "changes")
def test_a_model_that_is_exported_again_between_its_two_files(
    external: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old graph with the new weights would be a model that was never trained."""

    def export_late(*arguments: Any) -> Any:
        files = external_files(*arguments)
        external.source.write_bytes(external.source.read_bytes())
        (tmp_path / "weights.bin").write_bytes(bytes((tmp_path / "weights.bin").stat().st_size))
        return files

    monkeypatch.setattr("energyalign.onnx.model_file.external_files", export_late)
    with pytest.raises(ValueError, match=r"\.onnx changed while it was read"):
        external.align()
    assert not external.out.exists()


@pytest.mark.promise("An input that changes while it is read is detected", "changes")
def test_data_that_is_truncated_while_the_model_runs(workshop: Any, tmp_path: Path) -> None:
    """onnxruntime maps a table of embeddings and reads only the rows that it needs."""
    constants = {"E": workshop.normal(50_000, 5), "W": workshop.normal(5, 4), "b": workshop.normal(4)}
    constants["i"] = np.array([7, 49_999, 20_000])
    nodes = [
        make_node("Gather", ["E", "i"], ["rows"]),
        make_node("Add", ["rows", "x"], ["sum"]),
        make_node("Gemm", ["sum", "W", "b"], ["y"], "head"),
    ]
    workshop.save(nodes, constants)
    externalise(workshop)
    workshop.shifts.save(tmp_path / "shifts.json")
    child = subprocess.run([sys.executable, "-c", TRUNCATED], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert child.returncode == 0  # not SIGBUS
    assert "weights.bin changed while it was read" in child.stdout
    assert not workshop.out.exists()


def test_a_full_disk_leaves_both_old_files(external: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data is complete on disk, the model is not: the old data must not be replaced."""
    external.out.write_bytes(b"old model")
    before = contents(tmp_path)
    real = os.fsync

    def full(descriptor: int) -> None:
        if ".data." not in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ValueError, match=r"cannot write .*aligned\.onnx.*: No space left on device"):
        external.align()
    assert contents(tmp_path) == before
