"""Language models: label words as classes
==========================================

A causal language model can classify by the next word: the log-probabilities of a few label words after a prompt are
logits. The model prefers the words that it has read most often; one number per label word corrects that. The model is a
GPT-2 with one layer from ``transformers``, trained for a few seconds on sentences that end in a label word, mostly
*fine*; nothing is downloaded. For another causal model, replace ``label_logits`` and use that model's tokenizer. For a
label of several tokens, add their log-probabilities. Run one of

.. code-block:: bash

    python examples/label_words.py
    python examples/label_words.py --seed 1

It needs ``pip install '.[torch]' transformers``.
"""

import argparse

import torch
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel, set_seed

from energyalign import ClassScores, EnergyAligner

LABEL_WORDS = ["fine", "late", "broken"]
SHARES = torch.tensor([0.85, 0.11, 0.04])
SUBJECTS = ["the train", "my order", "this lamp", "the bus", "our guest", "the parcel"]
HINTS = {
    "fine": ["on time", "as promised", "warm", "bright", "quick", "at noon"],
    "late": ["at night", "after dinner", "at noon", "slow", "next week", "quick"],
    "broken": ["in pieces", "dark", "slow", "with a crack", "cold", "at noon"],
}
PHRASES = [*SUBJECTS, "came", ":", *LABEL_WORDS, *(hint for hints in HINTS.values() for hint in hints)]
VOCABULARY = sorted({word for phrase in PHRASES for word in phrase.split()})
TOKENS = {word: number for number, word in enumerate(["<pad>", *VOCABULARY])}


def pick(options, generator):
    return options[int(torch.randint(len(options), (), generator=generator))]


def write_prompts(n, shares, generator):
    """Return sentences such as `my order came slow cold :`, and the label word that follows each."""
    labels = torch.multinomial(shares, n, replacement=True, generator=generator)
    prompts = []
    for label in labels.tolist():
        # The second hint may belong to any label.
        hints = [pick(HINTS[word], generator) for word in (LABEL_WORDS[label], pick(LABEL_WORDS, generator))]
        prompts.append(f"{pick(SUBJECTS, generator)} came {' '.join(hints)} :")
    return prompts, labels


def encode(texts):
    """Return token numbers, padded on the left so that the last column is the last token, and the attention mask."""
    rows = [[TOKENS[word] for word in text.split()] for text in texts]
    width = max(map(len, rows))
    numbers = torch.tensor([[0] * (width - len(row)) + row for row in rows])
    return numbers, (numbers > 0).long()


def train(prompts, labels, epochs):
    """Train a language model on whole sentences: prompt and label word."""
    sizes = {"n_positions": 16, "n_embd": 32, "n_layer": 1, "n_head": 2}
    config = GPT2Config(vocab_size=len(TOKENS), bos_token_id=0, eos_token_id=0, **sizes)
    model = GPT2LMHeadModel(config)
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    texts = [f"{prompt} {LABEL_WORDS[label]}" for prompt, label in zip(prompts, labels.tolist(), strict=True)]
    numbers, mask = encode(texts)
    for _ in range(epochs):
        for part in torch.randperm(len(texts)).split(64):
            optimiser.zero_grad()
            targets = numbers[part].masked_fill(mask[part] == 0, -100)
            logits = model(input_ids=numbers[part], attention_mask=mask[part]).logits
            cross_entropy(logits[:, :-1].flatten(0, 1), targets[:, 1:].flatten()).backward()
            optimiser.step()
    return model.eval()


@torch.inference_mode()
def label_logits(model, prompts):
    """Return the log-probabilities of the label words as the next word: (n_prompts, n_labels)."""
    numbers, mask = encode(prompts)
    next_word = model(input_ids=numbers, attention_mask=mask).logits[:, -1]
    return next_word.log_softmax(-1)[:, [TOKENS[word] for word in LABEL_WORDS]].numpy()


def main():
    parser = argparse.ArgumentParser(description="Label words of a language model, aligned.")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    set_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    read = write_prompts(1500, SHARES, generator)
    val, test = (write_prompts(n, torch.ones(3), generator) for n in (300, 600))
    counts = torch.bincount(read[1]).tolist()
    model = train(*read, args.epochs)

    aligner = EnergyAligner(classes=LABEL_WORDS, evidence="held-out")
    aligner.fit(label_logits(model, val[0]), [LABEL_WORDS[label] for label in val[1]], counts=counts)

    raw, truth = label_logits(model, test[0]), test[1].numpy()
    before = ClassScores(3).update(raw, truth)
    after = ClassScores(3).update(aligner.transform(raw), truth)
    print(f"{'class':<18}{'times read':>12}{'before':>9}{'after':>9}")
    for name, count, old, new in zip(LABEL_WORDS, counts, before.per_class, after.per_class, strict=True):
        print(f"{name:<18}{count:>12,}{old:>9.1%}{new:>9.1%}")
    print(f"{'balanced accuracy':<30}{before.balanced_accuracy:>9.1%}{after.balanced_accuracy:>9.1%}")


if __name__ == "__main__":
    main()
