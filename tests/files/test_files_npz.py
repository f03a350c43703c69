"""Logits in .npz archives, written by NumPy and by zipfile."""

from __future__ import annotations

import io
import os
import tempfile
import zipfile

import numpy as np
import pytest

from energyalign import EnergyAlignError
from energyalign.files import open_shards


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_members_come_back_compressed_or_not(tmp_path, logits, read, small_blocks, *, save, dtype, order):
    saved = np.array(logits, dtype=dtype, order=order)
    save(tmp_path / "a.npz", logits=saved, other=np.zeros((2, 2)))
    np.testing.assert_array_equal(read(tmp_path / "a.npz"), saved)
    blocks = list(open_shards([tmp_path / "a.npz"]).blocks())
    assert all(block.nbytes <= small_blocks and block.flags.c_contiguous for block in blocks)
    assert all(block.dtype == np.dtype(dtype).newbyteorder("=") for block in blocks)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_come_back(tmp_path, logits, read, method):
    member = io.BytesIO()
    np.save(member, logits)
    with zipfile.ZipFile(tmp_path / "a.npz", "w", compression=method) as archive:
        archive.writestr("logits.npy", member.getvalue())
    np.testing.assert_array_equal(read(tmp_path / "a.npz"), logits)


def test_the_copy_of_a_fortran_ordered_member_is_removed(tmp_path, logits, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    np.savez(tmp_path / "a.npz", logits=np.asfortranarray(logits))
    shards = open_shards([tmp_path / "a.npz"])
    list(shards.blocks())
    list(shards.blocks())
    assert len(list(tmp_path.glob("energyalign-*"))) == 1
    del shards
    assert not list(tmp_path.glob("energyalign-*"))


def test_the_member_is_the_key_or_logits_or_the_only_floating_table(tmp_path, logits, read):
    np.savez(tmp_path / "named.npz", logits=logits, features=logits * 2)
    np.savez(tmp_path / "only.npz", logits * 3, np.arange(23), np.zeros((2, 2), dtype=int))
    np.testing.assert_array_equal(read(tmp_path / "named.npz"), logits)
    np.testing.assert_array_equal(read(tmp_path / "named.npz", key="features"), logits * 2)
    np.testing.assert_array_equal(read(tmp_path / "only.npz"), logits * 3)


def test_logits_under_the_name_of_labels_are_no_labels(tmp_path, logits):
    np.savez(tmp_path / "a.npz", labels=logits)
    assert open_shards([tmp_path / "a.npz"]).labels is None


@pytest.mark.parametrize("name", ["label", "labels"])
def test_labels_come_from_the_member_of_that_name(tmp_path, logits, name):
    np.savez_compressed(tmp_path / "a.npz", logits=logits, **{name: np.arange(23, dtype=np.int16) % 5})
    labels = open_shards([tmp_path / "a.npz"]).labels
    assert labels is not None
    assert labels.dtype == np.int64
    assert labels.tolist() == [index % 5 for index in range(23)]


@pytest.mark.parametrize(
    ("arrays", "key", "message"),
    [
        ({"a": np.zeros((2, 3)), "b": np.zeros((2, 3))}, None, "a single two-dimensional floating array, got a, b"),
        ({"a": np.zeros(3)}, None, "got a: choose one by its key"),
        ({}, None, "got none"),
        ({"a": np.zeros((2, 3))}, "z", "has no array 'z': choose one of a"),
        ({"logits": np.zeros((2, 3), dtype=int)}, None, "must hold floating-point logits, got int64"),
        ({"logits": np.zeros((2, 3, 4))}, None, r"a\.npz\['logits'\] must have the shape .* got \(2, 3, 4\)"),
        ({"logits": np.zeros((0, 3))}, None, "no rows"),
        ({"logits": np.zeros((2, 3)), "label": np.zeros(2), "labels": np.zeros(2)}, None, "both `label` and"),
    ],
)
def test_archives_without_usable_logits_are_refused(tmp_path, arrays, key, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(EnergyAlignError, match=message) as caught:
        open_shards([tmp_path / "a.npz"], key=key)
    assert "a.npz" in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(22, dtype=int), "has 22 labels for 23 rows"),
        (np.zeros((23, 1), dtype=int), r"\['labels'\] must have one dimension, got shape \(23, 1\)"),
        (np.full(23, "cat"), "holds class names"),
        (np.zeros(23, dtype=bool), "must hold labels, got bool"),
    ],
)
def test_bad_labels_are_refused(tmp_path, logits, labels, message):
    np.savez(tmp_path / "a.npz", logits=logits, labels=labels)
    shards = open_shards([tmp_path / "a.npz"])
    with pytest.raises(EnergyAlignError, match=message):
        _ = shards.labels


@pytest.mark.parametrize("kept", [1, 10, 100, 300, 600])
def test_truncated_archives_are_refused(tmp_path, logits, kept):
    np.savez(tmp_path / "a.npz", logits=logits)
    os.truncate(tmp_path / "a.npz", kept)
    with pytest.raises(EnergyAlignError, match=r"a\.npz is damaged or not a \.npz archive"):
        open_shards([tmp_path / "a.npz"])


def test_what_is_no_archive_is_refused(tmp_path, logits):
    np.save(tmp_path / "a.npy", logits)
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    with pytest.raises(EnergyAlignError, match=r"not a \.npz archive .*zip"):
        open_shards([tmp_path / "a.npz"])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damaged_numbers_are_refused_by_their_checksum(tmp_path, logits, save):
    save(tmp_path / "a.npz", logits=logits)
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[400] ^= 0xFF
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(EnergyAlignError, match=r"a\.npz.* is damaged"):
        for _ in open_shards([tmp_path / "a.npz"]).blocks():
            pass


def test_a_member_shorter_than_its_header_says_is_refused(tmp_path, logits):
    member = io.BytesIO()
    np.save(member, logits)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("logits.npy", member.getvalue()[:-7])
    with pytest.raises(EnergyAlignError, match=r"a\.npz\['logits'\] is truncated: 7 bytes are missing"):
        open_shards([tmp_path / "a.npz"])


def test_an_encrypted_member_is_refused(tmp_path, logits):
    np.savez(tmp_path / "a.npz", logits=logits)
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[6] |= 1  # the flag in the member's own header ...
    content[content.rindex(b"PK\x01\x02") + 8] |= 1  # ... and in the directory
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(EnergyAlignError, match=r"is damaged or not .*encrypted"):
        open_shards([tmp_path / "a.npz"])
