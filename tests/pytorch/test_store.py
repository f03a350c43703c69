"""Logits are kept in memory up to a limit and in a file beyond it, without changes."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import pytest
import torch

from energyalign import EnergyAlignError, Evidence, fit_shifts
from energyalign.pytorch.store import LogitStore


def blocks(n: int = 6, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(7 + i, 4, generator=generator).to(dtype) for i in range(n)]


def filled(bytes_in_memory: int) -> LogitStore:
    store = LogitStore(bytes_in_memory)
    for block in blocks():
        store.append(block, torch.arange(len(block)) % 4)
    return store


@pytest.mark.parametrize("room", [0, 300, 10**9])
def test_what_goes_in_comes_out_as_often_as_it_is_read(room: int) -> None:
    store = filled(room)
    spilled = [isinstance(block, np.memmap) for block in store.blocks]
    assert spilled == {0: [True] * 6, 300: [False, False, True, True, True, True], 10**9: [False] * 6}[room]
    for _ in range(2):
        for kept, block in zip(store.read(), blocks(), strict=True):
            np.testing.assert_array_equal(kept, block.numpy())
    assert store.n_samples == sum(map(len, blocks()))


def test_shifts_do_not_depend_on_where_the_logits_are() -> None:
    values = []
    for room in (0, 10**9):
        store = filled(room)
        evidence = Evidence.from_blocks(store.read, store.n_samples, 4, store.all_labels(), kind="held-out")
        values.append(fit_shifts(evidence, estimator="marginal", clusters="per-class").values)
    np.testing.assert_array_equal(*values)


def test_no_file_is_left_behind(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store = filled(0)
    assert store.n_samples > 0
    assert list(tmp_path.iterdir()) == []  # it has no name even while it is in use


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (torch.bfloat16, np.float32),
        (torch.float16, np.float32),
        (torch.float32, np.float32),
        (torch.float64, np.float64),
    ],
)
def test_precision(given: torch.dtype, kept: type) -> None:
    store = LogitStore()
    store.append(blocks(1, given)[0], None)
    assert store.blocks[0].dtype == kept
    np.testing.assert_array_equal(store.blocks[0], blocks(1, given)[0].double().numpy())


def test_labels_of_any_whole_type_or_none() -> None:
    store = LogitStore()
    store.append(torch.zeros(2, 3), torch.tensor([1, 2], dtype=torch.uint8))
    store.append(torch.zeros(1, 3), torch.tensor([0], dtype=torch.int32))
    labels = store.all_labels()
    assert labels is not None
    assert labels.tolist() == [1, 2, 0]
    assert LogitStore().all_labels() is None


def test_a_full_disk_is_said_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(EnergyAlignError, match=r"No space left on device\. Free some space in .*, set TMPDIR"):
        filled(0)
