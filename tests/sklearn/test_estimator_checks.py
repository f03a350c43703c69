"""All of scikit-learn's checks of estimators, with no expected failures."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import energyalign
import sklearn
from energyalign import EnergyAlignedClassifier, EnergyAligner

ESTIMATORS = [
    EnergyAlignedClassifier(),
    EnergyAlignedClassifier(LogisticRegression()),
    EnergyAlignedClassifier(DecisionTreeClassifier(random_state=0)),  # probabilities only
    EnergyAlignedClassifier(aligner=EnergyAligner(estimator="marginal")),
    EnergyAlignedClassifier(aligner=EnergyAligner(estimator="lse"), evidence="training"),
]

# The checks fit on a handful of samples, for which warnings are correct.
_TINY_DATA = "ignore::energyalign.core.errors.UntrustedEstimateWarning"


@pytest.mark.filterwarnings(_TINY_DATA)
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@pytest.mark.skipif(sklearn.__version__.startswith("1.6."), reason="scikit-learn 1.6 has no such check")
def test_the_check_that_needs_scipy_switched_to_the_array_api() -> None:
    """Skipped above, because SciPy reads its setting on import."""
    code = (
        "from sklearn.utils.estimator_checks import estimator_checks_generator\n"
        "from energyalign import EnergyAlignedClassifier\n"
        "run = 0\n"
        "for estimator, check in estimator_checks_generator(EnergyAlignedClassifier()):\n"
        "    if check.func.__name__ == 'check_array_api_input':\n"
        "        check(estimator)\n"
        "        run += 1\n"
        "print('run', run)\n"
    )
    source = str(Path(energyalign.__file__).parents[1])
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "run 1"
