"""Hugging Face: which package is this docstring from?
======================================================

This example aligns a text classifier trained on a long tail. Nothing is downloaded: the texts are the first paragraphs
of docstrings of installed packages, the tokenizer learns their words, and ``Trainer`` trains a small DistilBERT from
scratch, on 800 texts of numpy down to 30 of networkx. ``Trainer`` and ``from_pretrained`` treat the aligned model like
any other. Run one of

.. code-block:: bash

    python examples/hugging_face_text.py
    python examples/hugging_face_text.py --epochs 15 --seed 1 --out aligned_text_model

It needs ``pip install '.[torch]' transformers accelerate networkx``.
"""

import argparse
import ast
import importlib.util
import random
import re
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForSequenceClassification,
    DistilBertConfig,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

from energyalign import ClassScores
from energyalign.pytorch import align

TRAINING_TEXTS = {"numpy": 800, "sklearn": 250, "rich": 80, "networkx": 30}
PACKAGES = list(TRAINING_TEXTS)
TOO_EASY = {*PACKAGES, "np", "scikit", "nx"}  # the package's own names would make it trivial


def docstrings(package):
    """Yield the words of the first paragraph of every docstring in the package, in a fixed order."""
    for path in sorted(Path(importlib.util.find_spec(package).origin).parent.rglob("*.py")):
        if "tests" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                opening = (ast.get_docstring(node) or "").split("\n\n")[0].lower()
                words = [word for word in re.findall("[a-z]+", opening) if word not in TOO_EASY]
                if 5 <= len(words) <= 40:
                    yield " ".join(words)


def load_texts(seed):
    """Return unique texts with labels for training, for aligning (100 per package) and for testing (150)."""
    rng = random.Random(seed)
    seen = set()
    train, val, test = [], [], []
    for label, (package, n_train) in enumerate(TRAINING_TEXTS.items()):
        # Packages copy docstrings: no copy of a training text may be in the test set.
        fresh = [text for text in dict.fromkeys(docstrings(package)) if text not in seen]
        seen.update(fresh)
        rng.shuffle(fresh)
        val += [(text, label) for text in fresh[:100]]
        test += [(text, label) for text in fresh[100:250]]
        train += [(text, label) for text in fresh[250 : 250 + n_train]]
    return train, val, test


def train_tokenizer(texts):
    words = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.train_from_iterator(texts, trainers.WordLevelTrainer(min_frequency=2, special_tokens=["[PAD]", "[UNK]"]))
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")


def small_model(tokenizer):
    config = DistilBertConfig(
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        n_layers=2,
        n_heads=4,
        dim=64,
        hidden_dim=128,
        id2label=dict(enumerate(PACKAGES)),
    )
    return AutoModelForSequenceClassification.from_config(config)


def print_table(before, after):
    print(f"{'class':<18}{'training texts':>15}{'before':>9}{'after':>9}")
    for (name, count), old, new in zip(TRAINING_TEXTS.items(), before.per_class, after.per_class, strict=True):
        print(f"{name:<18}{count:>15}{old:>9.1%}{new:>9.1%}")
    print(f"{'balanced accuracy':<33}{before.balanced_accuracy:>9.1%}{after.balanced_accuracy:>9.1%}")


def main():
    parser = argparse.ArgumentParser(description="A Hugging Face text classifier on a long tail, aligned.")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="aligned_text_model", help="folder to save in (default: %(default)s)")
    args = parser.parse_args()

    set_seed(args.seed)
    train, val, test = load_texts(args.seed)
    tokenizer = train_tokenizer(text for text, _ in train)
    train_set, val_set, test_set = (
        [{**tokenizer(text), "labels": label} for text, label in part] for part in (train, val, test)
    )
    settings = TrainingArguments(
        output_dir=args.out,
        num_train_epochs=args.epochs,
        per_device_train_batch_size=32,
        learning_rate=1e-3,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        seed=args.seed,
    )
    trainer = Trainer(small_model(tokenizer), settings, train_dataset=train_set, processing_class=tokenizer)
    trainer.train()
    before = trainer.predict(test_set)

    val_loader = trainer.get_eval_dataloader(val_set)  # dicts of padded tensors, with labels
    counts = list(TRAINING_TEXTS.values())
    # In place, so that the trainer's own model is aligned.
    align(trainer.model, val_loader, counts=counts, evidence="held-out", class_names=PACKAGES, inplace=True)
    after = trainer.predict(test_set)
    print_table(*(ClassScores(len(PACKAGES)).update(said.predictions, said.label_ids) for said in (before, after)))

    trainer.save_model(args.out)
    loaded = AutoModelForSequenceClassification.from_pretrained(args.out)
    again = Trainer(loaded, settings, processing_class=tokenizer).predict(test_set)
    np.testing.assert_allclose(again.predictions, after.predictions, rtol=1e-5)
    print(f"\nSaved in {args.out}: loaded with from_pretrained, it gives the same logits for all {len(test)} texts.")


if __name__ == "__main__":
    main()
