"""Arrays are restored exactly, or the file is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from energyalign import EnergyAlignError
from energyalign.experiments.train.tensor_file import load_arrays, save_arrays

ARRAYS: dict[str, Any] = {
    "logits": np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32),
    "labels": np.arange(6),
    "none": np.zeros((0, 3)),
}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_arrays(tmp_path / "arrays.safetensors", ARRAYS)
    return tmp_path / "arrays.safetensors"


def same(arrays: dict[str, Any]) -> bool:
    return arrays.keys() == ARRAYS.keys() and all(np.array_equal(arrays[name], ARRAYS[name]) for name in ARRAYS)


def test_they_come_back(saved: Path) -> None:
    assert same(load_arrays(saved))


def test_any_flipped_bit_is_seen(saved: Path) -> None:
    content = saved.read_bytes()
    refused = []
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << (place % 8)
        saved.write_bytes(damaged)
        try:
            assert same(load_arrays(saved))  # white space in the header, or the name of the checksum
        except EnergyAlignError as error:
            refused.append(str(error))
    assert len(refused) > 0.8 * len(content)
    assert all(str(saved) in message and "Remove it and run the command that made it" in message for message in refused)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.99])
def test_a_truncated_file_is_refused(saved: Path, share: float) -> None:
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(EnergyAlignError, match="cannot read"):
        load_arrays(saved)


def test_a_file_without_a_checksum_is_refused(saved: Path) -> None:
    save_file(ARRAYS, saved)
    with pytest.raises(EnergyAlignError, match=r"arrays\.safetensors has no checksum, .* Remove it and run"):
        load_arrays(saved)


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(EnergyAlignError, match=r"cannot read .*gone\.safetensors"):
        load_arrays(tmp_path / "gone.safetensors")
