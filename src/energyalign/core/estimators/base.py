"""Base class of all estimators, and the types of their results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from energyalign.core.arrays import Floats, Ints, scale_errors
from energyalign.core.clusters import Clusters
from energyalign.core.errors import BadValueError, CannotGoOn, EnergyAlignError, classes_of
from energyalign.core.evidence import Evidence
from energyalign.core.sharing import Sharing, share_per_class, sharings_to_try, smooth

_MAX_CHANCE = 4.0  # standard errors: smaller deviations are attributed to chance


@dataclass(frozen=True, eq=False)
class Energies:
    """Negative free energies per cluster; only their differences matter.

    Attributes
    ----------
    values : array of shape (n_clusters,)
        The shift of a cluster is the value of the anchor cluster minus its own.
    standard_errors : array of shape (n_clusters,)
        Standard error of each value.
    shift_standard_errors : array of shape (n_clusters,)
        Standard error of each shift; 0 for the anchor. It does not follow from `standard_errors`: the values come from
        the same samples and are correlated.
    """

    values: Floats
    standard_errors: Floats
    shift_standard_errors: Floats


@dataclass(frozen=True, eq=False)
class Estimate:
    """Shifts of one estimator with one sharing, for a uniform target prior.

    `strain` is the distance by which monotone sharing moved a class from its own measured energy, or 0 if chance
    explains it. `strength` is the factor by which the estimator's shifts were multiplied.
    """

    estimator: Estimator
    clusters: Clusters
    shifts: Floats
    standard_errors: Floats
    strain: Floats
    strength: float = 1.0

    def scaled(self, strength: float) -> Self:
        """Return the estimate with its shifts multiplied by `strength`."""
        return replace(
            self,
            shifts=strength * self.shifts,
            standard_errors=scale_errors(self.standard_errors, strength),
            strength=strength,
        )


class Estimator(ABC):
    """Base class of estimators of class energies. Subclass it as a frozen dataclass and add it to `ESTIMATORS`.

    Only `name`, `description` and `energies` are required. The other defaults suit an estimator that measures energies
    on the evidence. Other modules call these methods and never check the name.

    Attributes
    ----------
    name : str
        Value of ``estimator=``.
    description : str
        One line for listings.
    reference : str
        The paper that introduced it, or ``energyalign``.
    reads_evidence : bool
        Whether the energies are measured on the evidence. If not, no evidence has to be collected.
    reads_counts : bool
        Whether the energies depend on the training counts. An estimator that reads neither keeps the raw model.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    reference: ClassVar[str] = ""
    reads_evidence: ClassVar[bool] = True
    reads_counts: ClassVar[bool] = False

    @classmethod
    def make(cls, *, tau: float) -> Self:  # noqa: ARG003
        """Create the estimator with the user's options. Override this to use `tau`."""
        return cls()

    @abstractmethod
    def energies(self, evidence: Evidence, clusters: Clusters) -> Energies:
        """Compute the energies of the clusters, or raise an `EnergyAlignError` that says what to do."""

    def applies(self, evidence: Evidence) -> str | None:  # noqa: ARG002
        """Return None if the estimator suits this evidence, else the reason why not, to be shown as a warning."""
        return None

    def sharings(self, evidence: Evidence) -> list[Sharing]:
        """Return the sharings to try for ``clusters="auto"``, preferred first."""
        # Sharing reduces noise, and energies that are not measured have none.
        return sharings_to_try(evidence) if self.reads_evidence else [share_per_class(evidence)]

    def temperature(self, evidence: Evidence, clusters: Clusters) -> float:  # noqa: ARG002
        """Return the factor that calibrates logits and shifts."""
        return 1.0

    def doubts(self, estimate: Estimate, evidence: Evidence) -> list[str]:  # noqa: ARG002
        """Return reasons not to trust the result, worst first: sentences that name the classes and the remedy."""
        return []

    def estimate(self, evidence: Evidence, sharing: Sharing) -> Estimate:
        """Estimate the energies and return the shifts relative to the anchor."""
        if sharing == "monotone":
            return self._estimate_monotone(evidence)
        energies = self._cached_energies(evidence, sharing)
        shifts = energies.values[sharing.anchor] - energies.values
        return Estimate(
            self,
            sharing,
            np.where(evidence.masked, 0.0, shifts[sharing.indices]),
            np.where(evidence.masked, 0.0, energies.shift_standard_errors[sharing.indices]),
            np.zeros(evidence.n_classes),
        )

    def leave_out(
        self,
        evidence: Evidence,  # noqa: ARG002
        sharing: Sharing,
        part: Evidence,
        folds: Ints,
    ) -> list[tuple[Floats, float]]:
        """Fit without each fold of `part` in turn; return shifts and temperatures, or zeros and 1 if the fit fails.

        `part` is the evidence or an evenly thinned part of it. Override this to reuse work of the fit to all samples.
        """
        fits = []
        for fold in range(int(folds.max()) + 1):
            rest = part.subset(folds != fold)
            try:
                estimate = self.estimate(rest, sharing)
                fits.append((estimate.shifts, self.temperature(rest, estimate.clusters)))
            except (BadValueError, CannotGoOn):
                raise  # not the fault of the estimator
            except EnergyAlignError:
                fits.append((np.zeros(part.n_classes), 1.0))
        return fits

    def _estimate_monotone(self, evidence: Evidence) -> Estimate:
        if evidence.counts is None:
            raise EnergyAlignError("monotone sharing orders the classes by their training counts: give counts.")
        usable = np.flatnonzero(evidence.usable)
        if len(usable) == 0:
            raise EnergyAlignError("no class has evidence: give labelled samples of the classes to correct.")
        # A class without evidence joins the usable class with the nearest count for the estimate. `smooth` then gives
        # it the value at its own count.
        stand_in = np.arange(evidence.n_classes)
        for k in np.flatnonzero(evidence.unseen):
            stand_in[k] = usable[np.argmin(np.abs(evidence.counts[usable] - evidence.counts[k]))]
        assignment = np.unique(stand_in, return_inverse=True)[1]
        rarest = usable[np.argmin(evidence.counts[usable])]
        # If every class has evidence, these are the clusters of `per-class`, whose energies may be cached.
        name = "given" if evidence.unseen.any() else "per-class"
        alone = Clusters(tuple(assignment.tolist()), int(assignment[rarest]), name)
        energies = self._cached_energies(evidence, alone)
        own, own_errors = energies.values[alone.indices], energies.standard_errors[alone.indices]
        values, errors = smooth(own, own_errors, evidence.counts, evidence.usable)
        pools = np.unique(values, return_inverse=True)[1]
        return Estimate(
            self,
            Clusters(tuple(pools.tolist()), int(pools[rarest]), "monotone"),
            np.where(evidence.masked, 0.0, values[rarest] - values),
            np.where(evidence.masked | (pools == pools[rarest]), 0.0, np.hypot(errors, errors[rarest])),
            np.where(evidence.usable & (np.abs(values - own) > _MAX_CHANCE * own_errors), np.abs(values - own), 0.0),
        )

    def _cached_energies(self, evidence: Evidence, clusters: Clusters) -> Energies:
        """Compute energies once per evidence: `auto` needs them for several sharings."""
        cache = evidence.estimated
        if (self, clusters) not in cache:
            cache[self, clusters] = self.energies(evidence, clusters)
        energies: Energies = cache[self, clusters]
        return energies


def refuse_clusters_without_evidence(evidence: Evidence, clusters: Clusters) -> None:
    """Raise if an unmasked cluster has no class whose energy can be estimated, or if the anchor is masked."""
    members = clusters.sizes(evidence.usable)
    unseen = clusters.sums(evidence.unseen.astype(np.float64))
    lacking = (members == 0) & (unseen > 0)
    if lacking.any():
        classes = np.flatnonzero(lacking[clusters.indices] & evidence.unseen).tolist()
        raise EnergyAlignError(
            f"no evidence for {classes_of(evidence.names_of(classes))}: a class needs evidence for a shift of its "
            "own. Add labelled samples, share shifts with clusters 'monotone' or a number of clusters (both need "
            "counts), or use estimator 'prior'."
        )
    if members[clusters.anchor] == 0:
        raise EnergyAlignError(
            "every class of the anchor cluster is masked (-inf) in all samples: choose another anchor."
        )


def cluster_means(per_class: Floats, evidence: Evidence, clusters: Clusters) -> Floats:
    """Return the mean over the usable classes of each cluster; a fully masked cluster takes the anchor's mean."""
    refuse_clusters_without_evidence(evidence, clusters)
    members = clusters.sizes(evidence.usable)
    sums = clusters.sums(np.where(evidence.usable, per_class, 0.0))
    means = np.divide(sums, members, out=np.zeros(clusters.n_clusters), where=members > 0)
    return np.where(members > 0, means, means[clusters.anchor])
