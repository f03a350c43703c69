"""Logits in NumPy, before and after
=================================

Ten equally hard classes, and a classifier that saw the first a hundred times as often as the last. The classifier is
otherwise optimal, so all its avoidable errors on balanced test data come from the training counts. This shows what
energy aligning does, and why.

Run it with ``python examples/logits_before_and_after.py``. It needs NumPy and matplotlib, and takes a second.
"""

# %%
# A classifier with a bias
# ------------------------
# The classes are ten clouds of points on a circle. The logits are those of the optimal classifier for the *training*
# data: the log density of a class plus the log of its frequency. The second term is the bias.

import matplotlib.pyplot as plt
import numpy as np

from energyalign import ClassScores, EnergyAligner

N_CLASSES = 10
TRAINING_COUNTS = np.round(1000 * 100 ** (-np.arange(N_CLASSES) / (N_CLASSES - 1))).astype(int)
rng = np.random.default_rng(0)

angles = 2 * np.pi * rng.permutation(N_CLASSES) / N_CLASSES  # common and rare classes side by side
centres = 2.2 * np.column_stack([np.cos(angles), np.sin(angles)])


def sample(per_class):
    """Draw points and labels, the same number of every class."""
    labels = np.repeat(np.arange(N_CLASSES), per_class)
    return centres[labels] + 0.5 * rng.standard_normal((len(labels), 2)), labels


def classify(points):
    """Return logits: log density of each class plus log of its share of the training data."""
    distances = ((points[:, None, :] - centres) ** 2).sum(axis=2)
    return -distances / (2 * 0.5**2) + np.log(TRAINING_COUNTS / TRAINING_COUNTS.sum())


# %%
# Fit the shifts
# --------------
# The evidence is a small balanced sample that the classifier was not trained on. The estimator is the paper's: the
# log-sum-exp of the logits over the sample, class by class.

points, labels = sample(per_class=50)
aligner = EnergyAligner(estimator="lse", clusters="per-class", evidence="held-out")
aligner.fit(classify(points), labels, counts=TRAINING_COUNTS)

shifts = aligner.shifts_
print("shift of each class:", shifts.values.round(2))
print("its standard error: ", shifts.standard_errors.round(2))

# %%
# Before and after
# ----------------
# Accuracy is measured on other points. The raw energies follow the log training counts. The shifts make them equal on
# the evidence.

test_points, test_labels = sample(per_class=500)
raw_logits = classify(test_points)
before = ClassScores(N_CLASSES).update(raw_logits, test_labels)
after = ClassScores(N_CLASSES).update(aligner.transform(raw_logits), test_labels)
print(f"accuracy: {before.accuracy:.1%} before, {after.accuracy:.1%} after")

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
classes = np.arange(N_CLASSES)
left.bar(classes, TRAINING_COUNTS, color="#bbbbbb")
left.set(xlabel="class", ylabel="training samples", xticks=classes, title="Energies follow the counts")
energies = left.twinx()
energies.plot(classes, shifts.energies, "o-", color="#0072b2", label="before")
energies.plot(classes, shifts.aligned_energies, "s--", color="#d55e00", label="after")
energies.set_ylabel("negative free energy")
energies.legend(loc="upper right")

right.bar(classes - 0.2, 100 * before.per_class, width=0.4, color="#0072b2", label="before")
right.bar(classes + 0.2, 100 * after.per_class, width=0.4, color="#d55e00", label="after")
right.set(xlabel="class", ylabel="accuracy, %", xticks=classes, title="Rare classes are recognised again")
right.legend(loc="lower center", ncols=2, framealpha=1)
plt.show()
