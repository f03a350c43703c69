"""When not to trust an energy: the effective sample size
======================================================

The paper's estimator, ``lse``, sums exponentials of logits. If the logits are large, one sample dominates the sum and
decides the shift of a whole class, and the correction does harm. The effective sample size shows this without any test
label. The example uses a linear classifier with less and less regularisation.

Run it with ``python examples/effective_sample_size.py``. It needs scikit-learn and matplotlib, and takes seconds.
"""

# %%
# One long tail, three classifiers
# --------------------------------
# Digits with 125 down to 4 training images, and logistic regression with decreasing regularisation: the weaker it is,
# the larger are the logits. Everything else stays the same.

import textwrap
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from energyalign import EnergyAligner, UntrustedEstimateWarning

TRAINING_COUNTS = [125, 84, 57, 38, 26, 17, 12, 8, 5, 4]
STRENGTHS = {"strong": 1.0, "weak": 100.0, "next to none": 10_000.0}
ESTIMATORS = ("none", "lse", "marginal", "prior")
pixels, digits = load_digits(return_X_y=True)
pixels = pixels / pixels.max()

rng = np.random.default_rng(0)
train, val, test = [], [], []
for digit, count in enumerate(TRAINING_COUNTS):
    images = rng.permutation(np.flatnonzero(digits == digit))
    test.extend(images[:30])
    val.extend(images[30:45])
    train.extend(images[45 : 45 + count])

# %%
# Four corrections for each
# -------------------------
# The evidence is fifteen held-out images of each digit. ``lse`` warns as the logits grow, and in the end its correction
# does harm. ``marginal`` uses posteriors, which are at most one. It also warns about uncertain shifts where nearly
# every posterior is 0 or 1, but those hardly change a prediction. ``prior`` does not use logits.

accuracy = {name: [] for name in ESTIMATORS}
effective = {}
for strength, inverse in STRENGTHS.items():
    model = LogisticRegression(C=inverse, max_iter=5000).fit(pixels[train], digits[train])
    val_logits, test_logits = (model.decision_function(pixels[part]) for part in (val, test))
    print(f"{strength} regularisation, largest logit {val_logits.max():.0f}:")
    for name in ESTIMATORS:
        aligner = EnergyAligner(estimator=name, clusters="per-class", evidence="held-out")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UntrustedEstimateWarning)  # printed below as concerns
            aligner.fit(val_logits, digits[val], counts=TRAINING_COUNTS)
        accuracy[name].append(100 * np.mean(aligner.predict(test_logits) == digits[test]))
        print(f"  {name:<9}{accuracy[name][-1]:5.1f} %")
        for concern in aligner.shifts_.concerns:
            print("           warning:", textwrap.fill(concern, 90, subsequent_indent=" " * 20))
        effective[strength] = aligner.shifts_.effective_samples

# %%
# The effective sample size
# -------------------------
# It is the number of the 150 samples that carry the energy of a class. Below five (the dotted line) ``lse`` warns.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
colours = ("#009e73", "#e69f00", "#d55e00")
for (strength, values), colour, marker in zip(effective.items(), colours, "osD", strict=True):
    left.semilogy(range(10), values, marker + "-", color=colour, label=f"{strength} regularisation")
left.axhline(5, color="#666666", linestyle=":", linewidth=1)
left.set(xlabel="class, common to rare", ylabel="effective samples of 150", xticks=range(10), ylim=(0.9, 150))
left.set_title("Fewer and fewer samples carry the sum ...")
left.legend()

places = np.arange(len(STRENGTHS))
for i, (name, colour) in enumerate(zip(ESTIMATORS, ("#bbbbbb", "#0072b2", "#d55e00", "#009e73"), strict=True)):
    right.bar(places + 0.2 * (i - 1.5), accuracy[name], 0.2, color=colour, label="raw" if name == "none" else name)
right.set(xticks=places, xticklabels=STRENGTHS, xlabel="regularisation", ylabel="accuracy, %", ylim=(60, 100))
right.set_title("... until lse does harm")
right.legend(ncols=4, loc="upper center", columnspacing=1)
plt.show()
