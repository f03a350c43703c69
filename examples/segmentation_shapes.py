"""Segmentation: rare shapes, pixel by pixel
============================================

A small convolutional network labels every pixel of noisy pictures: background, squares, and crosses, which are rare
and small. It is trained with plain cross-entropy; the pixels at the border have no label (255). ``align`` uses its
logits, pictures x classes x height x width, ignores the border, and folds one number per class into the bias of the
last convolution. Run one of

.. code-block:: bash

    python examples/segmentation_shapes.py
    python examples/segmentation_shapes.py --seed 1

It needs ``pip install '.[torch]'``.
"""

import argparse

import torch
from torch import nn

from energyalign import ClassScores
from energyalign.pytorch import align

CLASSES = ["background", "square", "cross"]
IGNORED = 255


def draw_pictures(n, generator):
    """Return noisy pictures of 24 x 24 pixels with two channels, and the class of each pixel."""
    labels = torch.zeros(n, 24, 24, dtype=torch.long)
    for picture in labels:
        row, column = torch.randint(2, 14, (2,), generator=generator).tolist()
        picture[row : row + 6, column : column + 6] = 1
        if torch.rand((), generator=generator) < 0.3:
            row, column = torch.randint(4, 20, (2,), generator=generator).tolist()
            picture[row, column - 2 : column + 3] = 2
            picture[row - 2 : row + 3, column] = 2
    colours = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.5, 1.0]])[labels].movedim(-1, 1)
    pictures = colours + 0.7 * torch.randn(colours.shape, generator=generator)
    for border in (labels[:, :1], labels[:, -1:], labels[:, :, :1], labels[:, :, -1:]):
        border.fill_(IGNORED)
    return pictures, labels


def train(pictures, labels, epochs):
    network = nn.Sequential(
        nn.Conv2d(2, 8, 5, padding=2), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1)
    )
    optimiser = torch.optim.Adam(network.parameters(), 1e-2)
    loss = nn.CrossEntropyLoss(ignore_index=IGNORED)
    for _ in range(epochs):
        for part in torch.randperm(len(pictures)).split(16):
            optimiser.zero_grad()
            loss(network(pictures[part]), labels[part]).backward()
            optimiser.step()
    return network


def measure(network, pictures, labels):
    with torch.inference_mode():
        logits = network(pictures)
    known = labels != IGNORED
    return ClassScores(len(CLASSES)).update(logits.movedim(1, -1)[known].numpy(), labels[known].numpy())


def main():
    parser = argparse.ArgumentParser(description="A segmentation network, aligned.")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    generator = torch.Generator().manual_seed(args.seed)
    torch.manual_seed(args.seed)
    train_set, val_set, test_set = (draw_pictures(n, generator) for n in (150, 60, 100))
    counts = torch.bincount(train_set[1][train_set[1] != IGNORED])
    network = train(*train_set, args.epochs)

    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*val_set), batch_size=50)
    aligned = align(network, loader, counts=counts, evidence="held-out", class_names=CLASSES, ignore_index=IGNORED)
    before, after = measure(network, *test_set), measure(aligned, *test_set)

    print(f"{'class':<18}{'training pixels':>16}{'before':>9}{'after':>9}")
    for name, count, old, new in zip(CLASSES, counts.tolist(), before.per_class, after.per_class, strict=True):
        print(f"{name:<18}{count:>16,}{old:>9.1%}{new:>9.1%}")
    print(f"{'balanced accuracy':<34}{before.balanced_accuracy:>9.1%}{after.balanced_accuracy:>9.1%}")
    changed = [name for name, old in network.state_dict().items() if not torch.equal(old, aligned.state_dict()[name])]
    print(f"\nChanged in the network: {', '.join(changed)}")


if __name__ == "__main__":
    main()
