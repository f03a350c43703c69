"""Models that keep their numbers in files beside them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.external_data_helper import ExternalDataInfo
from onnx.helper import make_node


def externalise(shop: Any, *, location: str | None = "weights.bin", attributes: bool = False) -> None:
    """Move every number of the model into other files: one, or one for each tensor if there is no location."""
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
    """A Gemm whose weights and bias are in weights.bin."""
    constants = {"W": workshop.normal(5, 4), "b": workshop.normal(4)}
    workshop.save([make_node("Gemm", ["x", "W", "b"], ["y"], "head")], constants)
    externalise(workshop)
    return workshop


def relocated(shop: Any, location: str) -> None:
    """Let the weights be looked for elsewhere."""
    model = onnx.load(shop.source, load_external_data=False)
    model.graph.initializer[0].external_data[0].value = location
    onnx.save(model, shop.source)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_model_and_data_are_written_side_by_side(external: Any, tmp_path: Path) -> None:
    done = external.align()
    assert (done.how, done.constant) == ("folded", "b")
    assert done.files == (external.out, tmp_path / "aligned.onnx.data")
    external.assert_shifted()


def test_the_pair_stands_on_its_own(external: Any, tmp_path: Path, run_model: Any) -> None:
    external.align()
    x = external.normal(3, 5)
    raw = run_model(external.source, {"x": x})["y"]
    away = tmp_path / "away"
    away.mkdir()
    for path in (external.out, tmp_path / "aligned.onnx.data"):
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
    assert {info.location for info in found.values()} == {"aligned.onnx.data"}
    assert {name: info.offset for name, info in found.items()} == {"V": 0, "c": 4096, "W": 8192}
    data = (tmp_path / "aligned.onnx.data").read_bytes()
    assert data[8192:] == constants["W"].tobytes()


def test_a_constant_node_may_have_its_data_elsewhere_too(workshop: Any) -> None:
    bias = onnx.numpy_helper.from_array(workshop.normal(4))
    nodes = [make_node("Constant", [], ["b"], value=bias), make_node("Gemm", ["x", "W", "b"], ["y"])]
    workshop.save(nodes, {"W": workshop.normal(5, 4)})
    externalise(workshop, attributes=True)
    assert onnx.load(workshop.source, load_external_data=False).graph.node[0].attribute[0].t.external_data
    assert workshop.align().how == "folded"
    workshop.assert_shifted()


@pytest.mark.parametrize(
    ("out", "named"),
    [("model.onnx", "model.onnx"), ("link.onnx", "link.onnx"), ("weights.bin", "weights.bin"), ("w", "w.data")],
    ids=["in place", "in place, through a link", "over the data", "new data over the data"],
)
def test_what_would_destroy_the_model_itself_is_refused(external: Any, tmp_path: Path, out: str, named: str) -> None:
    if out == "link.onnx":
        (tmp_path / out).symlink_to("model.onnx")
    if out == "w":
        (tmp_path / "weights.bin").rename(tmp_path / "w.data")
        model = onnx.load(external.source, load_external_data=False)
        for tensor in model.graph.initializer:
            tensor.external_data[0].value = "w.data"
        onnx.save(model, external.source)
    before = contents(tmp_path)
    external.out = tmp_path / out
    with pytest.raises(ValueError, match=rf"{named} is the same file as the input .*name of its own"):
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
        (outside, r"'\.\./secret', which is outside its folder"),
        (absolute, "'/etc/hostname', which is outside its folder"),
        (linked, r"'weights\.bin', which is outside its folder"),
        (missing, r"'weights\.bin', which is not there: put the whole data file beside the model"),
        (truncated, r"'weights\.bin', which is too short"),
    ],
)
def test_data_that_must_not_or_cannot_be_read(external: Any, tmp_path: Path, spoil: Any, named: str) -> None:
    spoil(external)
    external.out.write_bytes(b"old model")
    (tmp_path / "aligned.onnx.data").write_bytes(b"old data")
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=rf"model\.onnx keeps tensor '\w' in {named}"):
        external.align()
    assert contents(tmp_path) == before


def test_a_full_disk_leaves_both_old_files(external: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model does not get to the disk; its data, which did, must not have replaced the old data."""
    external.out.write_bytes(b"old model")
    (tmp_path / "aligned.onnx.data").write_bytes(b"old data")
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
