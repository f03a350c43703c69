"""A timm model: 80 zeros and two nines
=======================================

Handwritten digits on a long tail. The network is one of timm's tiny test models, trained from scratch in plain torch.
``align`` returns the same network; the last line shows that only the bias of its head has changed. Run one of

.. code-block:: bash

    python examples/timm_model.py
    python examples/timm_model.py --model test_efficientnet --epochs 20 --seed 1

It needs ``pip install '.[torch]' timm``.
"""

import argparse

import numpy as np
import timm
import torch
from sklearn.datasets import load_digits
from torch.nn import functional
from torch.utils.data import DataLoader, Subset, TensorDataset

from energyalign import ClassScores
from energyalign.pytorch import align

TRAINING_IMAGES = [80, 53, 35, 23, 15, 10, 6, 4, 3, 2]  # of the digits 0 to 9


def load_long_tail(seed):
    """Return disjoint sets for training, for aligning (40 images per digit) and for testing (50)."""
    digits = load_digits()
    pixels = torch.tensor(digits.images / digits.images.max(), dtype=torch.float32)[:, None]
    # The network halves the image five times: 8 x 8 pixels are too few.
    everything = TensorDataset(functional.interpolate(pixels, size=32, mode="bilinear"), torch.tensor(digits.target))
    rng = np.random.default_rng(seed)
    train, val, test = [], [], []
    for digit, n_train in enumerate(TRAINING_IMAGES):
        shuffled = rng.permutation(np.flatnonzero(digits.target == digit))
        val += [*shuffled[:40]]
        test += [*shuffled[40:90]]
        train += [*shuffled[90 : 90 + n_train]]
    return Subset(everything, train), Subset(everything, val), Subset(everything, test)


def train_network(model, images, epochs):
    loader = DataLoader(images, batch_size=32, shuffle=True, drop_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    for _ in range(epochs):
        for inputs, labels in loader:
            optimizer.zero_grad()
            functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()


@torch.inference_mode()
def measure(model, images):
    model.eval()
    scores = ClassScores(len(TRAINING_IMAGES))
    for inputs, labels in DataLoader(images, batch_size=128):
        scores.update(model(inputs), labels)
    return scores


def print_table(before, after):
    print(f"{'class':<18}{'training images':>16}{'before':>9}{'after':>9}")
    for digit, count in enumerate(TRAINING_IMAGES):
        print(f"{digit:<18}{count:>16}{before.per_class[digit]:>9.1%}{after.per_class[digit]:>9.1%}")
    print(f"{'balanced accuracy':<34}{before.balanced_accuracy:>9.1%}{after.balanced_accuracy:>9.1%}")


def main():
    parser = argparse.ArgumentParser(description="A timm model on a long tail of digits, aligned.")
    parser.add_argument("--model", default="test_resnet", help="any timm model for images of 32 x 32 pixels")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    train, val, test = load_long_tail(args.seed)
    model = timm.create_model(args.model, num_classes=len(TRAINING_IMAGES), in_chans=1)
    train_network(model, train, args.epochs)

    aligned = align(model, DataLoader(val, batch_size=128), counts=TRAINING_IMAGES, evidence="held-out")

    print_table(measure(model, test), measure(aligned, test))
    as_trained = model.state_dict()
    changed = [name for name, value in aligned.state_dict().items() if not torch.equal(value, as_trained[name])]
    print(f"\nChanged in {args.model}: {', '.join(changed)}")


if __name__ == "__main__":
    main()
