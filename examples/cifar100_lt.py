"""A real network in three lines: CIFAR-100-LT
===========================================

The package carries the logits of a ResNet-32 that was trained on CIFAR-100-LT for 200 epochs: 500 images of the first
class, 5 of the last. It is right about 69 % of the test images of common classes and about 10 % of those of rare ones.
No image and no training is needed to see what a number per class does about it.

Run it with ``python examples/cifar100_lt.py``. It takes scikit-learn, matplotlib and seconds.
"""

# %%
# Load, fit, score
# ----------------
# The evidence is 50 draws of each class from the training images. ``counts`` are the training images per class.

import matplotlib.pyplot as plt
import numpy as np

from energyalign import ClassScores, EnergyAligner
from energyalign.datasets import load_cifar100_lt

data = load_cifar100_lt()
aligner = EnergyAligner().fit(data.evidence, data.evidence_labels, counts=data.counts)
raw, aligned = (ClassScores(100).update(x, data.test_labels) for x in (data.test, aligner.transform(data.test)))
print(f"raw {raw.accuracy:.1%} -> aligned {aligned.accuracy:.1%}")

# %%
# Who gains, who pays
# -------------------
# Logit adjustment stands beside it. It needs no evidence, and this network, trained with plain cross-entropy, has the
# bias that its training counts say: logit adjustment is as good here. Which of the two fits a network of yours is what
# ``auto`` finds out, best on held-out samples.

prior = EnergyAligner(estimator="prior").fit(data.evidence, data.evidence_labels, counts=data.counts)
adjusted = ClassScores(100).update(prior.transform(data.test), data.test_labels)
for name, scores in {"raw": raw, "aligned": aligned, "logit adjustment": adjusted}.items():
    groups = ", ".join(f"{group} {value:.1%}" for group, value in scores.groups(data.counts).items())
    print(f"{name}: {groups}")

figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
window = np.ones(10) / 10  # single classes differ a lot: means of ten neighbours
for name, scores, colour in (("raw", raw, "#bbbbbb"), ("aligned", aligned, "#0072b2")):
    axes.plot(np.convolve(100 * scores.per_class, window, "valid"), color=colour, label=name, linewidth=2)
axes.set(xlabel="class, from 500 training images to 5", ylabel="accuracy, % (mean of ten classes)")
axes.legend()
plt.show()
