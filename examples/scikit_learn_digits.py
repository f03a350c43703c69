"""Scikit-learn: digits with many, some and few images
===================================================

Handwritten digits, with 125 training images of zero and three of nine. ``EnergyAlignedClassifier`` wraps a logistic
regression. The shifts come from out-of-fold predictions for the training data, so no image has to be held out.

Run it with ``python examples/scikit_learn_digits.py``. It needs scikit-learn and matplotlib, and takes seconds.
"""

# %%
# A long tail
# -----------
# Three digits have more than 100 training images (*many*), three have 20 to 100 (*medium*), four have fewer than 20
# (*few*): the groups of the literature on long-tailed recognition. The test set has 50 images of each digit.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from energyalign import ClassScores, EnergyAlignedClassifier

TRAINING_COUNTS = [125, 115, 105, 60, 40, 25, 12, 8, 5, 3]
pixels, digits = load_digits(return_X_y=True)
pixels = pixels / pixels.max()

rng = np.random.default_rng(0)
train, test = [], []
for digit, count in enumerate(TRAINING_COUNTS):
    images = rng.permutation(np.flatnonzero(digits == digit))
    test.extend(images[:50])
    train.extend(images[50 : 50 + count])

# %%
# Fit, once plain and once aligned
# --------------------------------

plain = LogisticRegression(max_iter=1000).fit(pixels[train], digits[train])
aligned = EnergyAlignedClassifier(LogisticRegression(max_iter=1000)).fit(pixels[train], digits[train])

chosen = aligned.shifts_
print(f"estimator: {chosen.estimator}, strength: {chosen.strength:.2f}")
print(chosen.selection.reason)

# %%
# Many, medium and few
# --------------------
# The rare digits gain more than the common ones lose. If your test data are as imbalanced as your training data and
# every *sample* counts the same, use the raw model.

before = ClassScores(10).update(plain.decision_function(pixels[test]), digits[test])
after = ClassScores(10).update(aligned.decision_function(pixels[test]), digits[test])
groups = {
    "all": (before.balanced_accuracy, after.balanced_accuracy),
    **{name: (old, after.groups(TRAINING_COUNTS)[name]) for name, old in before.groups(TRAINING_COUNTS).items()},
}
for name, (old, new) in groups.items():
    print(f"{name:<8}{old:>8.1%}{new:>8.1%}")

figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
places = np.arange(len(groups))
for offset, column, colour, label in ((-0.2, 0, "#0072b2", "before"), (0.2, 1, "#d55e00", "after")):
    bars = axes.bar(places + offset, [100 * pair[column] for pair in groups.values()], 0.4, color=colour, label=label)
    axes.bar_label(bars, fmt="%.0f")
axes.set(xticks=places, xticklabels=groups, ylabel="class-averaged accuracy, %", ylim=(0, 112))
axes.set_title("Digits, 125 down to 3 training images of a class")
axes.legend(ncols=2, loc="upper right")
plt.show()
