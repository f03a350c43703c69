"""Run the examples as users do, and check what they print and write by an independent computation."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from energyalign import Shifts

EXAMPLES = Path(__file__).parents[2] / "examples"
# Not in alphabetical order, in which ImageFolder numbers classes: counts and labels must still match.
DIGIT_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
DIGIT_COUNTS = (80, 53, 35, 23, 15, 10, 6, 4, 3, 2)
PACKAGES = ["numpy", "sklearn", "rich", "networkx"]
PACKAGE_COUNTS = [800, 250, 80, 30]


def needs(*packages):
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def run_example(name, *arguments, cwd):
    """Run the example, fail on unexpected warnings, and return its output."""
    command = [sys.executable, "-W", "error::UserWarning", EXAMPLES / name, *arguments]
    # One thread each: on a machine with other tests, more would wait for each other. Nothing is downloaded.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONIOENCODING": "utf-8"}
    environment |= {"MPLBACKEND": "Agg", "DISPLAY": ""}  # pictures are drawn, and not shown
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, cwd=cwd, env=environment, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def load_example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Table:
    """The printed table: names and training counts of classes, accuracies before and after in per cent."""

    def __init__(self, printed):
        rows = re.findall(r"^(\S+) +([\d,]+) +([\d.]+)% +([\d.]+)%$", printed, re.MULTILINE)
        self.names = [row[0] for row in rows]
        self.counts = [int(row[1].replace(",", "")) for row in rows]
        self.before, self.after = (np.array([float(row[column]) for row in rows]) for column in (2, 3))
        (summary,) = re.findall(r"^balanced accuracy +([\d.]+)% +([\d.]+)%$", printed, re.MULTILINE)
        # Numbers are printed to a tenth.
        np.testing.assert_allclose([float(x) for x in summary], [self.before.mean(), self.after.mean()], atol=0.11)

    @property
    def gain(self):
        """Return the gain in balanced accuracy, in points."""
        return self.after.mean() - self.before.mean()

    @property
    def gain_of_rarest(self):
        rarest = int(np.argmin(self.counts))
        return self.after[rarest] - self.before[rarest]


@pytest.fixture(scope="module")
def image_folder(tmp_path_factory):
    """Write digits as PNG files: few of some classes in train/, the same number of every class in val/ and test/."""
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path_factory.mktemp("digits")
    digits = load_digits()
    rng = np.random.default_rng(0)  # digits are sorted by writer; every part should have all writers
    for digit, (name, count) in enumerate(zip(DIGIT_NAMES, DIGIT_COUNTS, strict=True)):
        chosen = rng.permutation(np.flatnonzero(digits.target == digit))
        parts = {"val": chosen[:40], "test": chosen[40:90], "train": chosen[90 : 90 + count]}
        for part, numbers in parts.items():
            (folder / part / name).mkdir(parents=True)
            for number in numbers:
                pixels = (digits.images[number] * 15).astype(np.uint8)
                image.fromarray(pixels).save(folder / part / name / f"{number}.png")
    return folder


@needs("matplotlib")
def test_cifar100_lt(tmp_path):
    first, *groups = run_example("cifar100_lt.py", cwd=tmp_path).splitlines()
    assert first == "raw 40.9% -> aligned 45.2%"
    raw, aligned, adjusted = map(numbers_of, groups)  # many, medium, few
    for corrected in (aligned, adjusted):
        assert corrected[0] < raw[0]
        assert corrected[2] > raw[2] + 10


@needs("matplotlib")
def test_logits_before_and_after(tmp_path):
    printed = run_example("logits_before_and_after.py", cwd=tmp_path)
    counts = np.round(1000 * 100 ** (-np.arange(10) / 9))
    values, errors = (numbers_of(line) for line in printed.splitlines()[:2])
    # Theory: the energies of this classifier are the log counts, up to chance.
    np.testing.assert_allclose(values, np.log(counts[-1] / counts), atol=4 * max(errors))
    assert 0 < max(errors) < 0.3
    before, after = numbers_of(printed.splitlines()[2])
    assert after > before + 3


@needs("matplotlib")
def test_scikit_learn_digits(tmp_path):
    printed = run_example("scikit_learn_digits.py", cwd=tmp_path)
    rows = {line.split()[0]: numbers_of(line) for line in printed.splitlines() if line.endswith("%")}
    assert list(rows) == ["all", "many", "medium", "few"]
    for column in (0, 1):  # three digits have many training images, three have some, four have few
        mean = (3 * rows["many"][column] + 3 * rows["medium"][column] + 4 * rows["few"][column]) / 10
        assert rows["all"][column] == pytest.approx(mean, abs=0.11)
    assert rows["all"][1] > rows["all"][0] + 5
    assert rows["few"][1] > rows["few"][0] + 20


@needs("matplotlib")
def test_effective_sample_size(tmp_path):
    printed = run_example("effective_sample_size.py", cwd=tmp_path)
    sections = re.split(r"^.*regularisation, largest logit ", printed, flags=re.MULTILINE)[1:]
    largest = [float(section.partition(":")[0]) for section in sections]
    assert largest == sorted(largest)
    accuracies = [
        {name: float(share) for name, share in re.findall(r"^  (\w+) +([\d.]+) %", s, re.M)} for s in sections
    ]
    assert accuracies[0]["lse"] > accuracies[0]["none"] + 5
    assert "warning" not in sections[0]
    assert accuracies[2]["lse"] < accuracies[2]["none"] - 5
    assert "fewer than 5 effective samples" in " ".join(sections[2].split())
    assert accuracies[2]["marginal"] > accuracies[2]["none"]


def numbers_of(line):
    return [float(number) for number in re.findall(r"-?\d+\.\d*", line)]


@needs("lightgbm")
def test_lightgbm_margins(tmp_path):
    printed = run_example("lightgbm_margins.py", cwd=tmp_path)
    table = Table(printed)
    assert table.gain > 8
    assert table.gain_of_rarest > 20
    shifts = Shifts.load(tmp_path / "shifts.json")
    assert shifts.evidence_kind == "held-out"
    assert shifts.counts.tolist() == table.counts == sorted(table.counts, reverse=True)
    assert np.all(np.diff(shifts.values) > 0)  # the rarer, the more is added
    said = re.search(r"\[(.*)\]$", printed.strip())[1]
    np.testing.assert_allclose([float(number) for number in said.split()], shifts.values, atol=0.0051)


@needs("torch", "timm")
def test_timm_model(tmp_path):
    printed = run_example("timm_model.py", cwd=tmp_path)
    table = Table(printed)
    assert tuple(table.counts) == DIGIT_COUNTS
    assert table.gain > 5
    assert table.gain_of_rarest > 15
    assert printed.endswith("Changed in test_resnet: fc.bias\n")
    assert not any(tmp_path.iterdir())


@needs("torch", "timm")
def test_timm_model_measures_on_images_it_has_not_used():
    parts = load_example("timm_model").load_long_tail(seed=0)
    used = [index for part in parts for index in part.indices]
    assert len(set(used)) == len(used) == sum(DIGIT_COUNTS) + 10 * (40 + 50)


@needs("torch", "torchvision", "safetensors")
def test_torchvision_image_folder(image_folder, tmp_path):
    printed = run_example("torchvision_image_folder.py", image_folder, "--epochs", 4, "--out", "my.st", cwd=tmp_path)
    table = Table(printed)
    assert table.names == sorted(DIGIT_NAMES)
    assert dict(zip(table.names, table.counts, strict=True)) == dict(zip(DIGIT_NAMES, DIGIT_COUNTS, strict=True))
    assert table.gain > 5
    assert "the same logits for all 500 images" in printed
    assert [path.name for path in tmp_path.iterdir()] == ["my.st"]
    np.testing.assert_allclose(accuracies_of_saved_resnet(tmp_path / "my.st", image_folder / "test"), table.after)


def accuracies_of_saved_resnet(path, images):
    """Return accuracies per class in per cent, computed by a plain ResNet-18 without energyalign."""
    import torch
    from PIL import Image
    from safetensors.torch import load_file
    from torchvision.models import resnet18
    from torchvision.transforms import functional

    network = resnet18(num_classes=len(DIGIT_NAMES)).eval()
    network.load_state_dict(load_file(path))
    shares = []
    for label, name in enumerate(sorted(DIGIT_NAMES)):
        pictures = [Image.open(file).convert("RGB") for file in sorted((images / name).iterdir())]
        pixels = torch.stack([functional.to_tensor(functional.resize(picture, [32, 32])) for picture in pictures])
        with torch.inference_mode():
            shares.append(100.0 * (network(pixels).argmax(1) == label).double().mean().item())
    return np.array(shares)


@needs("torch", "torchvision", "safetensors")
def test_without_a_test_folder_val_is_halved_class_by_class(image_folder, tmp_path):
    for part in ("train", "val"):
        (tmp_path / part).symlink_to(image_folder / part)
    _, to_align, to_measure = load_example("torchvision_image_folder").load_images(tmp_path, image_size=8)
    assert set(to_align.indices).isdisjoint(to_measure.indices)
    for half in (to_align, to_measure):
        assert np.bincount([half.dataset.targets[index] for index in half.indices]).tolist() == [20] * 10


@needs("torch", "torchvision", "safetensors")
def test_a_class_that_val_lacks_is_not_taken_for_the_next(image_folder, tmp_path):
    (tmp_path / "train").symlink_to(image_folder / "train")
    (tmp_path / "val").mkdir()
    for name in DIGIT_NAMES[:-1]:
        (tmp_path / "val" / name).symlink_to(image_folder / "val" / name)
    with pytest.raises(SystemExit, match="val has the classes"):
        load_example("torchvision_image_folder").load_images(tmp_path, image_size=8)


@needs("torch")
def test_segmentation_shapes(tmp_path):
    printed = run_example("segmentation_shapes.py", cwd=tmp_path)
    table = Table(printed)
    assert table.names == ["background", "square", "cross"]
    assert table.counts == sorted(table.counts, reverse=True)
    assert sum(table.counts) == 150 * 22 * 22  # the border is not counted
    assert table.gain > 10
    assert table.gain_of_rarest > 40
    assert printed.endswith("Changed in the network: 4.bias\n")


@needs("torch")
def test_token_tagger(tmp_path):
    table = Table(run_example("token_tagger.py", cwd=tmp_path))
    assert table.names == ["other", "person", "place"]
    assert table.counts == sorted(table.counts, reverse=True)
    assert table.gain > 5
    assert table.gain_of_rarest > 15


def test_multilabel_text(tmp_path):
    printed = run_example("multilabel_text.py", cwd=tmp_path)
    rows = re.findall(r"^([A-Z]\w+) +(\d+) +([+-][\d.]+) +([\d.]+)% +([\d.]+)% +([\d.]+)% +([\d.]+)%$", printed, re.M)
    assert [row[0] for row in rows] == ["Returns", "Examples", "Notes", "References", "Raises"]
    counts, shifts, recall, after, balanced, corrected = np.array([row[1:] for row in rows], dtype=float).T
    assert np.all(shifts[counts < counts.max()] > 0.5)
    assert np.all((after - recall)[counts < counts.max()] > 10)
    assert corrected.mean() > balanced.mean() + 8
    (summary,) = re.findall(r"^balanced accuracy +([\d.]+)% +([\d.]+)%$", printed, re.M)
    np.testing.assert_allclose([float(x) for x in summary], [balanced.mean(), corrected.mean()], atol=0.11)


@needs("torch", "transformers")
def test_label_words(tmp_path):
    table = Table(run_example("label_words.py", cwd=tmp_path))
    assert table.names == ["fine", "late", "broken"]
    assert sum(table.counts) == 1500
    assert table.gain > 10
    assert table.gain_of_rarest > 20


@pytest.fixture(scope="module")
def package_texts():
    """Return pairs of text and label for training, aligning and testing, as in the example with seed 0."""
    return load_example("hugging_face_text").load_texts(seed=0)


@needs("torch", "transformers", "accelerate", "networkx")
def test_hugging_face_text(package_texts, tmp_path):
    printed = run_example("hugging_face_text.py", "--out", "saved", cwd=tmp_path)
    table = Table(printed)
    assert table.names == PACKAGES
    assert table.counts == PACKAGE_COUNTS
    assert table.gain > 5
    assert table.gain_of_rarest > 15
    assert "the same logits for all 600 texts" in printed
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
    one_text = 100 / 150  # may change, because texts are padded to another length here
    np.testing.assert_allclose(
        accuracies_of_saved_text_model(tmp_path / "saved", package_texts[2]), table.after, atol=one_text + 0.05
    )


def accuracies_of_saved_text_model(folder, texts_and_labels):
    """Return accuracies per class in per cent, computed from the saved folder alone: model, tokenizer, class names."""
    from transformers import pipeline

    texts, labels = zip(*texts_and_labels, strict=True)
    said = [answer["label"] for answer in pipeline("text-classification", model=str(folder))(list(texts))]
    right = np.array(said) == np.array(PACKAGES)[list(labels)]
    return 100.0 * np.bincount(labels, weights=right) / np.bincount(labels)


@needs("torch", "transformers", "accelerate", "networkx")
def test_hugging_face_texts_are_used_once_and_do_not_name_their_package(package_texts):
    for part, counts in zip(package_texts, (PACKAGE_COUNTS, [100] * 4, [150] * 4), strict=True):
        assert np.bincount([label for _, label in part]).tolist() == counts
    texts = [text for part in package_texts for text, _ in part]
    assert len(set(texts)) == len(texts)
    assert not {word for text in texts for word in text.split()}.intersection(PACKAGES)
