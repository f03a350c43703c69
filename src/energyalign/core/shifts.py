"""The result: one number per class to add to the logits."""

from __future__ import annotations

import os
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
from energyalign.core.errors import EnergyAlignError
from energyalign.core.selection.record import Selection


@dataclass(frozen=True, eq=False)
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
    n_samples : float
        Samples of evidence.
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
    n_samples: float = 0.0
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

    @property
    def aligned_energies(self) -> Floats | None:
        """Negative free energies after the correction."""
        return None if self.energies is None else self.energies + self.values

    def apply(self, logits: Array, *, inplace: bool = False) -> Array:
        """Logits plus shifts: an array of the same namespace, dtype, device and shape (..., n_classes).

        In half precision the sum of a large logit and a small shift may round the shift away; `predict` and
        `predict_proba` add in float32.
        """
        if isinstance(logits, (list, tuple)):
            logits = np.asarray(logits)
        self._check(logits)
        added = like(self.values, logits)
        if not inplace:
            return logits + added
        logits += added
        return logits

    def predict(self, logits: Array) -> npt.NDArray[np.int64]:
        """The class number of the largest corrected logit, per sample."""
        if isinstance(logits, np.ndarray) and logits.ndim == 2:
            self._check_shape(logits)
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
        corrected = self._corrected(logits)
        xp = namespace(corrected)
        largest = xp.max(corrected, axis=-1, keepdims=True)
        if not bool(xp.all(xp.isfinite(largest))):
            raise EnergyAlignError("a sample has +inf, or -inf for every class: its probabilities are not defined.")
        return corrected - largest

    def _corrected(self, logits: Array) -> Array:
        """Logits plus shifts in at least float32."""
        if isinstance(logits, (list, tuple)):
            logits = np.asarray(logits)
        self._check(logits)
        ready = working_precision(logits)
        return ready + like(self.values, ready)

    def with_target(self, prior: npt.ArrayLike | None) -> Self:
        """The same correction for another label distribution: log p_t(y) is exchanged."""
        target = check_target_prior(prior, self.n_classes)
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

    def _check_shape(self, logits: Array) -> None:
        if not hasattr(logits, "dtype") or not is_floating(logits):
            raise EnergyAlignError(f"logits must be a floating array, not {getattr(logits, 'dtype', type(logits))}.")
        if logits.ndim < 1 or logits.shape[-1] != self.n_classes:
            raise EnergyAlignError(
                f"logits of shape {tuple(logits.shape)} do not fit shifts for {self.n_classes} classes."
            )

    def _check(self, logits: Array) -> None:
        self._check_shape(logits)
        xp = namespace(logits)
        undefined = xp.isnan(logits)
        if bool(xp.any(undefined)):
            first = ", ".join(str(index) for index in np.argwhere(to_numpy(undefined))[0])
            raise EnergyAlignError(
                f"logits to correct have NaN, first at [{first}]: mend the model or drop those samples."
            )
