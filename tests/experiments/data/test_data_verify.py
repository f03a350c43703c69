"""Missing files, damaged files and unused classes are found before training."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.file_images import BadFilesError, DiskFiles, FileImages, map_in_threads
from energyalign.experiments.data.preparation import LargePreparation, Normalisation
from energyalign.experiments.data.sources import open_source
from energyalign.experiments.data.verify import check_no_gap, verify_images, verify_source


@pytest.fixture
def images(tmp_path, write_image):
    names = tuple(f"{k:03}.jpg" for k in range(150))
    for k, name in enumerate(names):
        write_image(tmp_path / name, seed=k)
    preparation = LargePreparation(Normalisation((0.5,) * 3, (0.5,) * 3))
    return FileImages(
        "photos train", DiskFiles(tmp_path, names), np.arange(150), np.arange(150) % 2, ("a", "b"), preparation
    )


def test_whole_images_pass_and_are_counted(images, small):
    seen = []
    verify_images(images, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(k, 150) for k in range(1, 151)]
    verify_images(small())


def test_missing_files_are_named_with_their_number(images, tmp_path):
    for k in range(20, 30):
        (tmp_path / f"{k:03}.jpg").unlink()
    with pytest.raises(
        BadFilesError,
        match=r"photos train: 10 of 150 files are missing: \S+020\.jpg, (\S+, ){8}\S+029\.jpg\. Check that",
    ) as info:
        verify_images(images)
    assert info.value.files == tuple(str(tmp_path / f"{k:03}.jpg") for k in range(20, 30))


def test_a_message_of_more_than_fifty_files_says_where_to_see_them_all(images, tmp_path):
    for k in range(60):
        (tmp_path / f"{k:03}.jpg").unlink()
    with pytest.raises(
        BadFilesError, match=r"60 of 150 .*007\.jpg and 52 more \(`energyalign data check photos`, with the --data-root"
    ) as info:
        verify_images(images)
    assert len(info.value.files) == 60


def test_damaged_files_are_named_with_their_number(images, tmp_path):
    whole = (tmp_path / "007.jpg").read_bytes()
    (tmp_path / "007.jpg").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "100.jpg").write_bytes(b"")
    (tmp_path / "149.jpg").write_text("<html>404</html>")
    with pytest.raises(BadFilesError, match=r"3 of 150 files cannot be decoded: .*007.jpg") as info:
        verify_images(images)
    assert [name[-7:] for name in info.value.files] == ["007.jpg", "100.jpg", "149.jpg"]
    assert "The first of them: cannot read the image" in str(info.value)


def test_pictures_of_an_unknown_range_are_listed_with_their_remedy(images, tmp_path):
    for k in (3, 5):
        Image.fromarray(np.zeros((30, 40), dtype=np.float32)).save(tmp_path / f"{k:03}.jpg", "TIFF")
    with pytest.raises(BadFilesError, match=r"2 of 150 .*003\.jpg, .*005\.jpg\. .*convert it to 8 bits per channel"):
        verify_images(images)


def test_a_check_lists_the_bad_files_of_a_set_that_is_kept_in_memory(tmp_path, write_image):
    for split in ("train", "test"):
        for name in ("a/0.png", "a/1.png", "b/0.png", "b/1.png"):
            write_image(tmp_path / split / name, size=(16, 12))
    for name in ("a/1.png", "b/0.png"):
        path = tmp_path / "train" / name
        path.write_bytes(path.read_bytes()[:-120])
    said = []
    with pytest.raises(BadFilesError, match="2 of 4 files"):
        verify_source(open_source(f"folder:{tmp_path}"), said.append)
    assert [line for line in said if line.startswith("BAD")] == [
        f"BAD      {tmp_path}/train/{name}" for name in ("a/1.png", "b/0.png")
    ]


def test_only_the_images_of_the_set_are_looked_at(images, tmp_path):
    (tmp_path / "007.jpg").unlink()
    verify_images(images.subset([k for k in range(150) if k != 7]))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 3, 3], r"labels up to 3, but no image of 1 of these classes \(the first: 2\)"),
        ([1, 2], r"no image of 1 of these classes \(the first: 0\)"),
        ([0, 10**15], r"no image of 999,999,999,999,999 .*the first: 1, 2, 3, 4, 5, 6, 7, 8\)"),
        ([0, -1], "has the label -1: number the classes from 0"),
        ([], "has no images"),
    ],
)
def test_gaps(labels, message):
    with pytest.raises(EnergyAlignError, match=message):
        check_no_gap(np.array(labels, dtype=np.int64), "the list")
    assert check_no_gap(np.array([2, 0, 1, 1]), "the list") == 3


def test_threads_keep_the_order_and_stop_at_an_error():
    assert list(map_in_threads(lambda k: k * k, 1000)) == [k * k for k in range(1000)]
    assert list(map_in_threads(str, 0)) == []
    with pytest.raises(ZeroDivisionError):
        list(map_in_threads(lambda k: 1 // (500 - k), 1000))
