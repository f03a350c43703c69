"""torchvision: your own folder of images
=========================================

Train a ResNet-18, align it, save it, and load it as a plain ResNet-18.

The folder holds ``train/`` and ``val/``, each with one sub-folder of images per class. If there is a ``test/`` as well,
the network is aligned on all of ``val/`` and tested on ``test/``. Otherwise each gets one half of ``val/``, because the
images that the shifts were fitted on would overstate the gain. ``val/`` need not be balanced. Run one of

.. code-block:: bash

    python examples/torchvision_image_folder.py PATH
    python examples/torchvision_image_folder.py PATH --epochs 30 --image-size 224 --out aligned.safetensors

It needs ``pip install '.[vision]'``. The documentation site runs it on digits, as PNG files.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_model, save_model
from torch.nn import functional
from torch.utils.data import DataLoader, Subset
from torchvision.datasets import ImageFolder
from torchvision.models import resnet18
from torchvision.transforms import v2

from energyalign import ClassScores
from energyalign.pytorch import align

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def load_images(folder, image_size):
    """Return disjoint sets of images for training, for aligning and for testing."""
    pixels = [v2.Resize((image_size, image_size)), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    names = ["train", "val", "test"] if (folder / "test").is_dir() else ["train", "val"]
    splits = [ImageFolder(folder / name, v2.Compose(pixels)) for name in names]
    for name, split in zip(names, splits, strict=True):
        # ImageFolder numbers the sub-folders: a missing one would renumber all classes after it.
        if split.classes != splits[0].classes:
            raise SystemExit(f"{folder / name} has the classes {split.classes}, train/ has {splits[0].classes}.")
    if len(splits) == 2:
        train, val = splits
        # Images are listed class by class, so every second image is one half of each class.
        splits = [train, Subset(val, range(0, len(val), 2)), Subset(val, range(1, len(val), 2))]
    return splits


def train_network(model, images, epochs):
    # Batch normalisation fails on a batch of one image, so incomplete batches are dropped.
    loader = DataLoader(images, batch_size=min(32, len(images)), shuffle=True, drop_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    for _ in range(epochs):
        for inputs, labels in loader:
            optimizer.zero_grad()
            functional.cross_entropy(model(inputs.to(DEVICE)), labels.to(DEVICE)).backward()
            optimizer.step()


@torch.inference_mode()
def logits_and_labels(model, images):
    model.eval()
    batches = [(model(inputs.to(DEVICE)).cpu(), labels) for inputs, labels in DataLoader(images, batch_size=128)]
    logits, labels = zip(*batches, strict=True)
    return torch.cat(logits), torch.cat(labels)


def print_table(names, counts, before, after):
    print(f"{'class':<18}{'training images':>16}{'before':>9}{'after':>9}")
    for name, count, old, new in zip(names, counts, before.per_class, after.per_class, strict=True):
        print(f"{name:<18}{count:>16,}{old:>9.1%}{new:>9.1%}")
    print(f"{'balanced accuracy':<34}{before.balanced_accuracy:>9.1%}{after.balanced_accuracy:>9.1%}")


def main():
    parser = argparse.ArgumentParser(description="A ResNet-18 for your own folder of images, aligned.")
    parser.add_argument("path", type=Path, help="folder with train/, val/ and perhaps test/")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--image-size", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="aligned.safetensors", help="where to save (default: %(default)s)")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    train, val, test = load_images(args.path, args.image_size)
    counts = np.bincount(train.targets)
    model = resnet18(weights=None, num_classes=len(counts)).to(DEVICE)
    train_network(model, train, args.epochs)

    aligned = align(
        model, DataLoader(val, batch_size=128), counts=counts, evidence="held-out", class_names=train.classes
    )

    before_logits, labels = logits_and_labels(model, test)
    after_logits, _ = logits_and_labels(aligned, test)
    before = ClassScores(len(counts)).update(before_logits, labels)
    after = ClassScores(len(counts)).update(after_logits, labels)
    print_table(train.classes, counts, before, after)

    save_model(aligned, args.out)
    loaded = resnet18(weights=None, num_classes=len(counts)).to(DEVICE)
    load_model(loaded, args.out)
    loaded_logits, _ = logits_and_labels(loaded, test)
    torch.testing.assert_close(loaded_logits, after_logits)
    print(f"\nSaved {args.out}: loaded into a plain resnet18, it gives the same logits for all {len(labels)} images.")


if __name__ == "__main__":
    main()
