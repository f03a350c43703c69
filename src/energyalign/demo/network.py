"""A small network that also says its logits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.neural_network import MLPClassifier


class Network(MLPClassifier):  # type: ignore[misc]
    """scikit-learn's multi-layer perceptron (ReLU) with its scores before softmax as decision function."""

    def decision_function(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logits, one column per class."""
        hidden = np.asarray(X)
        for weights, bias in zip(self.coefs_[:-1], self.intercepts_[:-1], strict=True):
            hidden = np.maximum(hidden @ weights + bias, 0.0)
        return np.asarray(hidden @ self.coefs_[-1] + self.intercepts_[-1])
