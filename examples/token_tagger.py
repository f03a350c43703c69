"""Token classification: rare tags, word by word
================================================

A tagger (an embedding, a convolution over neighbours, a linear layer) learns which words of synthetic sentences are
names of people or places; most are neither. Sentences are padded, and the padding has the label -100, the default of
PyTorch. ``align`` uses its logits, sentences x words x tags, and ignores the padding. The same line aligns a
``...ForTokenClassification`` model of Hugging Face. Run one of

.. code-block:: bash

    python examples/token_tagger.py
    python examples/token_tagger.py --seed 1

It needs ``pip install '.[torch]'``.
"""

import argparse

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from energyalign import ClassScores
from energyalign.pytorch import align

TAGS = ["other", "person", "place"]
PADDING = -100
N_WORDS = 120  # 0 is the padding; the tag of some words depends on their neighbours


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(N_WORDS, 16, padding_idx=0)
        self.context = nn.Conv1d(16, 32, 3, padding=1)
        self.head = nn.Linear(32, len(TAGS))

    def forward(self, words):
        return self.head(self.context(self.words(words).mT).relu().mT)


def write_sentences(n, generator):
    """Return sentences with a tag for each word; the tags have shares of about 94, 4 and 2 %."""
    sentences = []
    for length in torch.randint(6, 16, (n,), generator=generator).tolist():
        tags = torch.multinomial(torch.tensor([0.94, 0.04, 0.02]), length, replacement=True, generator=generator)
        words = torch.randint(1, 100, (length,), generator=generator)  # words that may have any tag
        typical = torch.rand(length, generator=generator) < torch.tensor([0.0, 0.5, 0.5])[tags]
        words[typical] = (
            100 + 10 * (tags[typical] - 1) + torch.randint(0, 10, (int(typical.sum()),), generator=generator)
        )
        after = (tags[1:] > 0).nonzero()[:, 0]  # a title or a preposition precedes some of them
        words[after] = torch.where(torch.rand(len(after), generator=generator) < 0.6, tags[after + 1], words[after])
        sentences.append((words, tags))
    return sentences


def batches(sentences):
    """Yield pairs of padded words and tags, 32 sentences each."""
    for first in range(0, len(sentences), 32):
        words, tags = zip(*sentences[first : first + 32], strict=True)
        yield pad_sequence(words, batch_first=True), pad_sequence(tags, batch_first=True, padding_value=PADDING)


def train(sentences, epochs):
    tagger, loss = Tagger(), nn.CrossEntropyLoss(ignore_index=PADDING)
    optimiser = torch.optim.Adam(tagger.parameters(), 5e-3)
    for _ in range(epochs):
        for words, tags in batches(sentences):
            optimiser.zero_grad()
            loss(tagger(words).flatten(0, 1), tags.flatten()).backward()
            optimiser.step()
    return tagger


def measure(tagger, sentences):
    scores = ClassScores(len(TAGS))
    with torch.inference_mode():
        for words, tags in batches(sentences):
            known = tags != PADDING
            scores.update(tagger(words)[known].numpy(), tags[known].numpy())
    return scores


def main():
    parser = argparse.ArgumentParser(description="A tagger of words, aligned.")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    generator = torch.Generator().manual_seed(args.seed)
    torch.manual_seed(args.seed)
    train_set, val_set, test_set = (write_sentences(n, generator) for n in (600, 400, 600))
    counts = torch.bincount(torch.cat([tags for _, tags in train_set]))
    tagger = train(train_set, args.epochs)

    aligned = align(tagger, batches(val_set), counts=counts, evidence="held-out", class_names=TAGS)
    before, after = measure(tagger, test_set), measure(aligned, test_set)

    print(f"{'class':<18}{'training words':>16}{'before':>9}{'after':>9}")
    for name, count, old, new in zip(TAGS, counts.tolist(), before.per_class, after.per_class, strict=True):
        print(f"{name:<18}{count:>16,}{old:>9.1%}{new:>9.1%}")
    print(f"{'balanced accuracy':<34}{before.balanced_accuracy:>9.1%}{after.balanced_accuracy:>9.1%}")


if __name__ == "__main__":
    main()
