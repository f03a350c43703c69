"""The result: one number per class to add to the logits."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from energyalign.core._engine.largest import largest_corrected
from energyalign.core._io.atomic import atomic_write
from energyalign.core._io.strict_json import read_text
from energyalign.core.arrays import (
    Array,
    Floats,
    is_floating,
    like,
    namespace,
    to_numpy,
    working_precision,
)
from energyalign.core.checks import check_target_prior
from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError, UntrustedEstimateWarning
from energyalign.core.probabilities import MIN_ROWS, TAKEN_AS_LOGITS, are_probabilities, log_probabilities
from energyalign.core.selection.record import Selection

_MAX_SHOWN = 20  # classes in a summary


@dataclass(frozen=True, eq=False, repr=False)
class Shifts:
    """One shift per class, and where it came from. Made by a fit, or loaded from JSON.

    Attributes
    ----------
    values : array of shape (n_classes,)
        What is added to the logits. 0 for the anchor under a uniform target.
    standard_errors : array of shape (n_classes,)
        Of each shift against the anchor, as the evidence varies.
    clusters : Clusters
        Which classes share a shift, and the anchor.
    target_prior : array of shape (n_classes,)
        The label distribution the corrected model is meant for.
    estimator : str
        Name of the estimator.
    tau : float
        Scale of ``prior``.
    strength : float
        What the estimator's shifts were multiplied by: 0 is the raw model, 1 the estimate.
    energies : array of shape (n_classes,) or None
        Negative free energies of the raw model on the evidence.
    effective_samples : array of shape (n_classes,) or None
        Effective sample size behind each of these energies.
    counts : array of shape (n_classes,) or None
        Training samples per class.
    class_names : tuple of str or None
    evidence_kind : str
        ``training``, ``out-of-fold`` or ``held-out``.
    from_probabilities : bool
        Whether the evidence was probabilities, of which logarithms were taken: so are they of what is to be corrected.
    n_samples : float
        Samples of evidence.
    scoring : str
        What the shifts were chosen for.
    selection : Selection or None
        What `auto` compared and why it chose.
    concerns : tuple of str
        Reasons not to trust the estimate, with remedies; also raised as warnings by the fit.
    """

    values: Floats
    standard_errors: Floats
    clusters: Clusters
    target_prior: Floats
    estimator: str
    tau: float = 1.0
    strength: float = 1.0
    energies: Floats | None = None
    effective_samples: Floats | None = None
    counts: Floats | None = None
    class_names: tuple[str, ...] | None = None
    evidence_kind: str = "training"
    from_probabilities: bool = False
    n_samples: float = 0.0
    scoring: str = "balanced_accuracy"
    selection: Selection | None = None
    concerns: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        for name in ("values", "standard_errors", "target_prior", "energies", "effective_samples", "counts"):
            given = getattr(self, name)
            if given is None:
                continue
            array = np.array(given, dtype=np.float64)  # a copy: the result must not change behind its owner
            if array.shape != (self.clusters.n_classes,):
                raise EnergyAlignError(
                    f"shifts: {name} has shape {array.shape}, but there are {self.clusters.n_classes} classes."
                )
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if not np.all(np.isfinite(self.values)):
            classes = np.flatnonzero(~np.isfinite(self.values))
            raise EnergyAlignError(f"shifts: the value of class {classes[0]} is not a finite number.")
        if not (np.all(self.target_prior > 0) and np.isclose(self.target_prior.sum(), 1.0)):
            raise EnergyAlignError("shifts: target_prior must be positive and sum to one.")
        if self.class_names is not None and len(self.class_names) != self.n_classes:
            raise EnergyAlignError(f"shifts: {len(self.class_names)} names for {self.n_classes} classes.")

    @property
    def n_classes(self) -> int:
        return self.clusters.n_classes

    def __repr__(self) -> str:
        return (
            f"Shifts({self.n_classes} classes, estimator={self.estimator!r}, scoring={self.scoring!r}, "
            f"strength={self.strength:.2f}, evidence={self.evidence_kind!r}, concerns={len(self.concerns)})"
        )

    def summary(self) -> str:
        """What was fitted, how it was chosen, the largest and smallest shifts, and what speaks against it."""
        order = np.argsort(-self.values, kind="stable").tolist()
        half, left_out = _MAX_SHOWN // 2, max(0, self.n_classes - _MAX_SHOWN)
        rows = [f"  {self.values[k]:+8.3f} +- {self.standard_errors[k]:.3f}  {self.names_of([k])[0]}" for k in order]
        if left_out:
            rows[half:-half] = [f"  ... {left_out} more"]
        head = (
            f"Shifts of {self.n_classes} classes by {self.estimator} ({self.clusters.name}) for {self.scoring}, from "
            f"{self.n_samples:,.0f} {self.evidence_kind} samples."
        )
        chosen = [] if self.selection is None else [f"Chosen: {self.selection.reason}"]
        return "\n".join([head, *chosen, *rows, *(f"Concern: {concern}" for concern in self.concerns)])

    @property
    def aligned_energies(self) -> Floats | None:
        """Negative free energies after the correction."""
        return None if self.energies is None else self.energies + self.values

    def apply(self, logits: Array, *, inplace: bool = False) -> Array:
        """Logits plus shifts: an array of the same namespace, dtype, device and shape (..., n_classes).

        In half precision the sum of a large logit and a small shift may round the shift away; `predict` and
        `predict_proba` add in float32. Of probabilities the logarithm is taken first, with a warning.
        """
        ready = self._as_logits(logits)
        self._check(ready)
        added = like(self.values, ready)
        if not inplace:
            return ready + added
        if ready is not logits:
            logits[...] = ready
        logits += added
        return logits

    def predict(self, logits: Array) -> npt.NDArray[np.int64]:
        """The class number of the largest corrected logit, per sample."""
        logits = self._as_logits(logits)
        if isinstance(logits, np.ndarray) and logits.ndim == 2:
            classes, undefined = largest_corrected(logits, self.values)
            if undefined:
                self._check(logits)
            return classes
        corrected = self._corrected(logits)
        return to_numpy(namespace(corrected).argmax(corrected, axis=-1)).astype(np.int64, copy=False)

    def predict_proba(self, logits: Array) -> Array:
        """Softmax of the corrected logits."""
        below = self._below_largest(logits)
        xp = namespace(below)
        scaled = xp.exp(below)
        return scaled / xp.sum(scaled, axis=-1, keepdims=True)

    def predict_log_proba(self, logits: Array) -> Array:
        """Logarithm of `predict_proba`, exact also where a probability rounds to 0."""
        below = self._below_largest(logits)
        xp = namespace(below)
        return below - xp.log(xp.sum(xp.exp(below), axis=-1, keepdims=True))

    def _below_largest(self, logits: Array) -> Array:
        """Corrected logits less the largest of each sample."""
        corrected = self._corrected(self._as_logits(logits))
        xp = namespace(corrected)
        largest = xp.max(corrected, axis=-1, keepdims=True)
        if not bool(xp.all(xp.isfinite(largest))):
            raise EnergyAlignError("a sample has +inf, or -inf for every class: its probabilities are not defined.")
        return corrected - largest

    def _corrected(self, logits: Array) -> Array:
        """Logits plus shifts in at least float32."""
        self._check(logits)
        ready = working_precision(logits)
        return ready + like(self.values, ready)

    def scaled(self, strength: float) -> Self:
        """The same correction, `strength` times as large: 0 is the raw model, 1 leaves it as it is."""
        if not np.isfinite(strength):
            raise EnergyAlignError(f"strength must be a finite number, got {strength}.")
        target = np.log(self.target_prior * self.n_classes) if self.scoring == "balanced_accuracy" else 0.0
        return replace(
            self,
            values=strength * (self.values - target) + target,
            standard_errors=abs(strength) * self.standard_errors,
            strength=strength * self.strength,
        )

    def with_target(self, prior: npt.ArrayLike | None) -> Self:
        """The same correction for another label distribution: log p_t(y) is exchanged."""
        if self.scoring != "balanced_accuracy":
            raise EnergyAlignError(
                f"these shifts were chosen for {self.scoring}: fit them again with target_prior=... for another target."
            )
        target = check_target_prior(prior, self.n_classes, self.class_names)
        return replace(self, values=self.values + np.log(target / self.target_prior), target_prior=target)

    def names_of(self, classes: Sequence[int]) -> list[str]:
        """What to call these classes."""
        return [str(k) if self.class_names is None else self.class_names[k] for k in classes]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write JSON that a person can read, one class a line. An existing file is replaced as a whole."""
        from energyalign.core._io.shifts_json import dump

        text = dump(self)
        with atomic_write(path) as stream:
            stream.write(text)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Shifts:
        """Read what `save` wrote; anything else is refused with the reason."""
        from energyalign.core._io.shifts_json import parse

        try:
            text = read_text(path)
        except (OSError, ValueError) as error:
            raise EnergyAlignError(f"cannot read shifts from {path}: {error}.") from error
        try:
            return parse(text)
        except EnergyAlignError as error:
            raise EnergyAlignError(f"{path}: {error}") from error

    def _as_logits(self, scores: Array) -> Array:
        """An array of the right shape; of probabilities, their logarithm."""
        if isinstance(scores, (list, tuple)):
            scores = np.asarray(scores)
        self._check_shape(scores)
        if not are_probabilities(scores, min_rows=1 if self.from_probabilities else MIN_ROWS):
            return scores
        if not self.from_probabilities:
            warnings.warn(TAKEN_AS_LOGITS, UntrustedEstimateWarning, stacklevel=3)
        return namespace(scores).astype(log_probabilities(scores), scores.dtype)

    def _check_shape(self, logits: Array) -> None:
        if not hasattr(logits, "dtype") or not is_floating(logits):
            raise EnergyAlignError(f"logits must be a floating array, not {getattr(logits, 'dtype', type(logits))}.")
        if logits.ndim < 1 or logits.shape[-1] != self.n_classes:
            raise EnergyAlignError(
                f"logits of shape {tuple(logits.shape)} do not fit shifts for {self.n_classes} classes."
            )

    def _check(self, logits: Array) -> None:
        xp = namespace(logits)
        undefined = xp.isnan(logits)
        if bool(xp.any(undefined)):
            first = ", ".join(str(index) for index in np.argwhere(to_numpy(undefined))[0])
            raise EnergyAlignError(
                f"logits to correct have NaN, first at [{first}]: mend the model or drop those samples."
            )
