"""Independent labels: which sections does this docstring have?
==============================================================

A text may have several labels at once, each with its own sigmoid. Here the texts are the first paragraphs of
docstrings of scikit-learn, and the labels are the sections that follow: *Returns* is common, *Raises* is rare. The
model is a bag of words with a logistic regression for each label. ``EnergyAligner(multilabel=True)`` gives each label
its own shift. Run one of

.. code-block:: bash

    python examples/multilabel_text.py
    python examples/multilabel_text.py --seed 1

It needs only ``pip install .``.
"""

import argparse
import ast
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.multiclass import OneVsRestClassifier

import sklearn
from energyalign import EnergyAligner

SECTIONS = ["Returns", "Examples", "Notes", "References", "Raises"]


def load_docstrings():
    """Return first paragraphs without duplicates, and a 0/1 matrix of the sections that follow each."""
    found = {}
    for path in sorted(Path(sklearn.__file__).parent.rglob("*.py")):
        if "tests" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and (text := ast.get_docstring(node)):
                opening, *rest = text.split("\n\n", 1)
                found[f"{node.name.replace('_', ' ')} {opening}"] = rest[0].splitlines() if rest else []
    labels = np.array([[section in lines for section in SECTIONS] for lines in found.values()], dtype=int)
    return list(found), labels


def main():
    parser = argparse.ArgumentParser(description="A text classifier with independent labels, aligned.")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    texts, labels = load_docstrings()
    train, rest = train_test_split(np.arange(len(texts)), train_size=0.5, random_state=args.seed)
    val, test = train_test_split(rest, train_size=0.5, random_state=args.seed)
    words = CountVectorizer(binary=True, min_df=2).fit([texts[i] for i in train])
    X_train, X_val, X_test = (words.transform([texts[i] for i in part]) for part in (train, val, test))
    model = OneVsRestClassifier(LogisticRegression(C=0.3, max_iter=200)).fit(X_train, labels[train])

    n_with = labels[train].sum(axis=0)
    counts = np.column_stack([len(train) - n_with, n_with])
    aligner = EnergyAligner(estimator="shrunk", multilabel=True, classes=SECTIONS, evidence="held-out")
    aligner.fit(model.decision_function(X_val), labels[val], counts=counts)

    raw = model.decision_function(X_test)
    truth, predictions = labels[test] == 1, (raw > 0, aligner.predict(raw) == 1)
    print(
        f"{'label':<18}{'with it':>8}{'shift':>8}{'recall before':>15}{'after':>8}{'balanced before':>17}{'after':>8}"
    )
    balanced = []
    for k, name in enumerate(SECTIONS):
        recalls = [said[truth[:, k], k].mean() for said in predictions]
        balanced.append([(said == truth)[truth[:, k] == side, k].mean() for said in predictions for side in (0, 1)])
        old, new = np.mean(balanced[-1][:2]), np.mean(balanced[-1][2:])
        print(
            f"{name:<18}{n_with[k]:>8}{aligner.shifts_.values[k]:>+8.2f}"
            f"{recalls[0]:>15.1%}{recalls[1]:>8.1%}{old:>17.1%}{new:>8.1%}"
        )
    mean = np.mean(balanced, axis=0)
    print(f"{'balanced accuracy':<57}{mean[:2].mean():>17.1%}{mean[2:].mean():>8.1%}")


if __name__ == "__main__":
    main()
