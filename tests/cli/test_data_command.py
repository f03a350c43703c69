"""`energyalign data check`."""

import sys

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def photos(tmp_path):
    for split in ("train", "test"):
        for name in ("cat", "dog"):
            (tmp_path / split / name).mkdir(parents=True)
            for i in range(3):
                pixels = np.random.default_rng(i).integers(0, 256, (80, 90, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / split / name / f"{i}.jpg")
    return tmp_path


def test_a_set_that_is_always_there(run):
    code, out, err = run("data", "check", "digits")
    assert (code, err) == (0, "")
    assert "train    1,297 images of 10 classes, 124 to 133 images per class" in out
    assert "test     500 images of 10 classes, 50 to 50" in out


@pytest.mark.parametrize(
    ("name", "missing", "remedy"),
    [
        ("cifar10", "cifar-10-batches-bin/data_batch_4.bin", "Get cifar-10-binary.tar.gz from"),
        ("cifar100", "cifar-100-binary/train.bin", "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"),
        ("imagenet", "train", "ILSVRC2012_img_train.tar"),
        ("imagenet-lt", "ImageNet_LT_train.txt", "image-net.org"),
        ("inaturalist18", "iNaturalist18_val.txt", "train_val2018.tar.gz"),
    ],
)
def test_a_set_that_is_not_there(run, tmp_path, name, missing, remedy):
    code, out, err = run("data", "check", name, "--data-root", tmp_path)
    assert code == 2
    assert f"MISSING  {tmp_path}/{missing}" in out
    assert f"energyalign: error: {name}: " in err
    assert remedy in err
    assert list(tmp_path.iterdir()) == []


def test_one_file_of_several_is_missing(run, tmp_path):
    (tmp_path / "iNaturalist18_train.txt").write_text("a.jpg 0\nb.jpg 1\n")
    code, out, err = run("data", "check", "inaturalist18", "--data-root", tmp_path)
    assert code == 2
    assert f"found    {tmp_path}/iNaturalist18_train.txt" in out
    assert f"MISSING  {tmp_path}/iNaturalist18_val.txt" in out
    assert "1 of 2 are missing" in err


def test_a_folder(run, photos):
    code, out, _ = run("data", "check", f"folder:{photos}")
    assert code == 0
    assert "train    6 images of 2 classes, 3 to 3 images per class" in out


def test_every_bad_file_is_printed(run, photos):
    for name in ("cat/0.jpg", "dog/2.jpg"):
        (photos / "test" / name).write_bytes(b"no image")
    code, out, err = run("data", "check", f"folder:{photos}")
    assert code == 2
    assert f"BAD      {photos}/test/cat/0.jpg\nBAD      {photos}/test/dog/2.jpg" in out
    assert "2 of 6 files cannot be decoded" in err


def test_missing_images_are_told_from_missing_lists(run, tmp_path):
    (tmp_path / "train.txt").write_text("a.jpg 0\nb.jpg 1\n")
    (tmp_path / "test.txt").write_text("a.jpg 0\n")
    code, out, err = run("data", "check", f"lists:{tmp_path}")
    assert code == 2
    assert f"BAD      {tmp_path}/b.jpg" in out
    assert "2 of 2 files are missing" in err


def test_a_download_that_is_not_offered(run, tmp_path):
    code, _, err = run("data", "check", "imagenet-lt", "--data-root", tmp_path, "--download")
    assert code == 2
    assert "energyalign cannot download imagenet-lt" in err


def test_an_unknown_name(run):
    code, _, err = run("data", "check", "mnist")
    assert code == 2
    assert "unknown data set 'mnist': choose one of digits" in err


@pytest.mark.parametrize("command", [["data"], ["data", "check"]])
def test_help_is_light_and_has_examples(shell, command):
    result = shell(*command, "--help")
    assert result.returncode == 0
    assert b"energyalign data check cifar100" in result.stdout


def test_without_torch(tmp_path, shell):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('no torch', name='torch')")
    result = shell("data", "check", "digits", env={"PYTHONPATH": f"{tmp_path}:{_source()}"})
    assert result.returncode == 2
    assert b"data sets need torch, which is not installed: pip install 'energyalign[experiments]'" in result.stderr


def test_a_terminal_sees_how_far_it_is(photos, run, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    code, _, err = run("data", "check", f"folder:{photos}")
    assert code == 0
    assert "decoding images" in err


def _source():
    from pathlib import Path

    import energyalign

    return Path(energyalign.__file__).parents[1]
