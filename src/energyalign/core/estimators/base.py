"""The contract of an estimator: what it reads, when it applies, which sharings it tries, what it doubts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from energyalign.core.arrays import Floats, Ints
from energyalign.core.clusters import Clusters
from energyalign.core.errors import BadValueError, CannotGoOn, EnergyAlignError, classes_of
from energyalign.core.evidence import Evidence
from energyalign.core.sharing import Sharing, share_per_class, sharings_to_try, smooth

_BY_CHANCE = 4.0  # standard errors


@dataclass(frozen=True, eq=False)
class Energies:
    """Negative free energies per cluster; only their differences matter.

    Attributes
    ----------
    values : array of shape (n_clusters,)
        The shift of a cluster is the value of the anchor cluster minus its own.
    standard_errors : array of shape (n_clusters,)
        Of each value.
    shift_standard_errors : array of shape (n_clusters,)
        Of each shift; 0 for the anchor. Smaller or larger than the errors of two values suggest, because
        the values come from the same samples.
    """

    values: Floats
    standard_errors: Floats
    shift_standard_errors: Floats


@dataclass(frozen=True, eq=False)
class Estimate:
    """Balanced shifts per class by one estimator with one sharing; the target prior is not in them yet.

    `strain` is how far monotone sharing moved each class from its own measured energy, where that is more than chance
    explains; 0 elsewhere. `strength` is what the estimator's shifts were multiplied by.
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
            self, shifts=strength * self.shifts, standard_errors=strength * self.standard_errors, strength=strength
        )


class Estimator(ABC):
    """A way to find the energies of classes. Subclass it as a frozen dataclass and add it to `ESTIMATORS`.

    Only `name`, `description` and `energies` are required. Everything else has a default that suits an estimator that
    measures energies on the evidence. `auto`, the warnings and every front door ask the estimator, never its name.

    Attributes
    ----------
    name : str
        What users write in ``estimator=``.
    description : str
        What it does, in one line.
    reference : str
        The paper it comes from, or ``energyalign``.
    reads_evidence : bool
        Whether the energies are measured on the evidence. If not, nothing need be drawn for it.
    reads_counts : bool
        Whether the energies depend on the training counts. What reads neither is the raw model.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    reference: ClassVar[str] = ""
    reads_evidence: ClassVar[bool] = True
    reads_counts: ClassVar[bool] = False

    @classmethod
    def make(cls, *, tau: float) -> Self:  # noqa: ARG003
        """Make the estimator with the user's options. Override it to use `tau`."""
        return cls()

    @abstractmethod
    def energies(self, evidence: Evidence, clusters: Clusters) -> Energies:
        """Compute the energies of the clusters, or raise an `EnergyAlignError` with the remedy."""

    def applies(self, evidence: Evidence) -> str | None:  # noqa: ARG002
        """Return None, or the reason why it does not suit this evidence: the user's warning."""
        return None

    def sharings(self, evidence: Evidence) -> list[Sharing]:
        """List what to try for ``clusters="auto"``, preferred first."""
        # What is not measured has no noise that sharing could reduce.
        return sharings_to_try(evidence) if self.reads_evidence else [share_per_class(evidence)]

    def temperature(self, evidence: Evidence, clusters: Clusters) -> float:  # noqa: ARG002
        """Return what logits and shifts are multiplied by to be calibrated."""
        return 1.0

    def doubts(self, estimate: Estimate, evidence: Evidence) -> list[str]:  # noqa: ARG002
        """List what speaks against its result: sentences that name the classes and the remedy, worst first."""
        return []

    def estimate(self, evidence: Evidence, sharing: Sharing) -> Estimate:
        """Estimate the energies of the classes and turn them into shifts against the anchor."""
        if sharing == "monotone":
            return self._estimate_monotone(evidence)
        energies = self._known_energies(evidence, sharing)
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
        """Return shifts and a temperature without each fold of `part`, in turn; zeros and 1 if too little is left.

        `part` is the evidence, or an even part of it. Override it where what all samples say saves work.
        """
        found = []
        for fold in range(int(folds.max()) + 1):
            rest = part.subset(folds != fold)
            try:
                estimate = self.estimate(rest, sharing)
                found.append((estimate.shifts, self.temperature(rest, estimate.clusters)))
            except (BadValueError, CannotGoOn):
                raise  # nothing that the estimator is to blame for
            except EnergyAlignError:
                found.append((np.zeros(part.n_classes), 1.0))
        return found

    def _estimate_monotone(self, evidence: Evidence) -> Estimate:
        if evidence.counts is None:
            raise EnergyAlignError("monotone sharing orders the classes by their training counts: pass counts=...")
        usable = np.flatnonzero(evidence.usable)
        if len(usable) == 0:
            raise EnergyAlignError("no class has evidence: give logits of the classes to correct.")
        # Classes without evidence must not stop the others: each joins the usable class nearest to it in counts, then
        # takes its own count's value.
        stand_in = np.arange(evidence.n_classes)
        for k in np.flatnonzero(evidence.unseen):
            stand_in[k] = usable[np.argmin(np.abs(evidence.counts[usable] - evidence.counts[k]))]
        assignment = np.unique(stand_in, return_inverse=True)[1]
        rarest = usable[np.argmin(evidence.counts[usable])]
        # Where no class has to join another, these are the clusters of `per-class`: their energies may be known.
        name = "given" if evidence.unseen.any() else "per-class"
        alone = Clusters(tuple(assignment.tolist()), int(assignment[rarest]), name)
        energies = self._known_energies(evidence, alone)
        own, own_errors = energies.values[alone.indices], energies.standard_errors[alone.indices]
        values, errors = smooth(own, own_errors, evidence.counts, evidence.usable)
        pools = np.unique(values, return_inverse=True)[1]
        return Estimate(
            self,
            Clusters(tuple(pools.tolist()), int(pools[rarest]), "monotone"),
            np.where(evidence.masked, 0.0, values[rarest] - values),
            np.where(evidence.masked | (pools == pools[rarest]), 0.0, np.hypot(errors, errors[rarest])),
            np.where(evidence.usable & (np.abs(values - own) > _BY_CHANCE * own_errors), np.abs(values - own), 0.0),
        )

    def _known_energies(self, evidence: Evidence, clusters: Clusters) -> Energies:
        """Compute energies once per evidence: `auto` asks for the same ones under several sharings."""
        known = evidence.estimated
        if (self, clusters) not in known:
            known[self, clusters] = self.energies(evidence, clusters)
        result: Energies = known[self, clusters]
        return result


def refuse_clusters_without_evidence(evidence: Evidence, clusters: Clusters) -> None:
    """Raise if a cluster in play has no class whose energy can be estimated, or the anchor is masked."""
    members = clusters.sizes(evidence.usable)
    unseen = clusters.sums(evidence.unseen.astype(np.float64))
    lacking = (members == 0) & (unseen > 0)
    if lacking.any():
        classes = np.flatnonzero(lacking[clusters.indices] & evidence.unseen).tolist()
        raise EnergyAlignError(
            f"no evidence for {classes_of(evidence.names_of(classes))}: a class cannot have a shift of its own "
            "without. Add labelled samples, share shifts with clusters='monotone' or a number of "
            "clusters (both need counts), or use estimator='prior'."
        )
    if members[clusters.anchor] == 0:
        raise EnergyAlignError(
            "every class of the anchor cluster is masked (-inf) in all samples: choose another anchor."
        )


def cluster_means(per_class: Floats, evidence: Evidence, clusters: Clusters) -> Floats:
    """Average over the usable classes of each cluster; a cluster that is masked altogether takes the anchor's mean."""
    refuse_clusters_without_evidence(evidence, clusters)
    members = clusters.sizes(evidence.usable)
    sums = clusters.sums(np.where(evidence.usable, per_class, 0.0))
    means = np.divide(sums, members, out=np.zeros(clusters.n_clusters), where=members > 0)
    return np.where(members > 0, means, means[clusters.anchor])
