"""LightGBM: one number per class, added to its margins
=======================================================

``predict(X, raw_score=True)`` returns the logits of the trees. ``EnergyAligner`` estimates from the margins of held-out
rows how much each class is preferred. The shifts are saved as JSON beside the model, and loaded again for the table.
Run one of

.. code-block:: bash

    python examples/lightgbm_margins.py
    python examples/lightgbm_margins.py --seed 1 --out shifts.json

It needs ``pip install . lightgbm``.
"""

import argparse

import numpy as np
from lightgbm import LGBMClassifier
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from energyalign import ClassScores, EnergyAligner, Shifts

CLASS_SHARES = [0.7, 0.2, 0.06, 0.025, 0.015]


def load_rows(seed):
    """Return rows for training, for aligning and for testing, all with the same imbalance."""
    X, y = make_classification(
        n_samples=12_000,
        n_features=20,
        n_informative=8,
        n_classes=len(CLASS_SHARES),
        weights=CLASS_SHARES,
        flip_y=0.0,
        random_state=seed,
    )
    X_train, X_rest, y_train, y_rest = train_test_split(X, y, train_size=0.4, stratify=y, random_state=seed)
    X_val, X_test, y_val, y_test = train_test_split(X_rest, y_rest, train_size=0.5, stratify=y_rest, random_state=seed)
    return (X_train, y_train), (X_val, y_val), (X_test, y_test)


def print_table(counts, before, after):
    print(f"{'class':<18}{'training rows':>14}{'before':>9}{'after':>9}")
    for k, (count, old, new) in enumerate(zip(counts, before.per_class, after.per_class, strict=True)):
        print(f"{k:<18}{count:>14,}{old:>9.1%}{new:>9.1%}")
    print(f"{'balanced accuracy':<32}{before.balanced_accuracy:>9.1%}{after.balanced_accuracy:>9.1%}")
    # The price: some rows of the common classes are now assigned to rare ones.
    print(f"{'share of rows right':<32}{before.accuracy:>9.1%}{after.accuracy:>9.1%}")


def main():
    parser = argparse.ArgumentParser(description="LightGBM on imbalanced rows, aligned.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="shifts.json", help="where to save the shifts (default: %(default)s)")
    args = parser.parse_args()

    (X_train, y_train), (X_val, y_val), (X_test, y_test) = load_rows(args.seed)
    counts = np.bincount(y_train)
    # One thread: more do not help with so few rows.
    model = LGBMClassifier(n_estimators=60, num_leaves=15, n_jobs=1, verbose=-1, random_state=args.seed)
    model.fit(X_train, y_train)

    # A Booster's predict has raw_score=True too. For two classes, both return one margin per row, which is one logit.
    val_margins = model.predict(X_val, raw_score=True)
    aligner = EnergyAligner(evidence="held-out").fit(val_margins, y_val, counts=counts)
    aligner.shifts_.save(args.out)

    shifts = Shifts.load(args.out)
    test_margins = model.predict(X_test, raw_score=True)
    before = ClassScores(shifts.n_classes).update(test_margins, y_test)
    after = ClassScores(shifts.n_classes).update(shifts.apply(test_margins), y_test)
    print_table(counts, before, after)
    print(f"\nShifts in {args.out} ({shifts.estimator}): {np.array2string(shifts.values, precision=2)}")


if __name__ == "__main__":
    main()
