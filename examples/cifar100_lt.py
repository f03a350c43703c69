"""A real network in three lines: CIFAR-100-LT
===========================================

The package ships the logits of a ResNet-32 that was trained on CIFAR-100-LT for 200 epochs: 500 images of the first
class, 5 of the last. It classifies about 69 % of the test images of common classes correctly, and about 10 % of those
of rare classes. One number per class corrects that, without images and without training.

Run it with ``python examples/cifar100_lt.py``. It needs scikit-learn and matplotlib, and takes seconds.
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
# Which classes gain and lose
# ---------------------------
# Logit adjustment needs no evidence. Plain cross-entropy leaves a bias that follows the training counts, so logit
# adjustment is as good for this network. For your own network, let ``auto`` choose, best on held-out samples.

prior = EnergyAligner(estimator="prior").fit(data.evidence, data.evidence_labels, counts=data.counts)
adjusted = ClassScores(100).update(prior.transform(data.test), data.test_labels)
for name, scores in {"raw": raw, "aligned": aligned, "logit adjustment": adjusted}.items():
    groups = ", ".join(f"{group} {value:.1%}" for group, value in scores.groups(data.counts).items())
    print(f"{name}: {groups}")

figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
window = np.ones(10) / 10  # smooth over ten neighbouring classes
for name, scores, colour in (("raw", raw, "#bbbbbb"), ("aligned", aligned, "#0072b2")):
    axes.plot(np.convolve(100 * scores.per_class, window, "valid"), color=colour, label=name, linewidth=2)
axes.set(xlabel="class, from 500 training images to 5", ylabel="accuracy, % (mean of ten classes)")
axes.legend()
plt.show()
