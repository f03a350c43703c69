"""Input files of `energyalign fit`: evidence, clusters, target prior and costs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from energyalign.core._engine.parts import LogitPart, keep_rows
from energyalign.core._io.strict_json import read_json_file
from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError, some_of
from energyalign.core.evidence import Evidence
from energyalign.core.heads import known_rows, to_rows
from energyalign.core.multilabel import MultilabelEvidence
from energyalign.core.names import counts_by_class
from energyalign.core.objectives import Costs
from energyalign.files import ShardSet, open_shards, read_assignment, read_counts, read_labels, read_matrix, read_names

REPORT_NEEDS_LABELS = "--report needs labels: give --labels, or leave --report out."


def files(arguments: argparse.Namespace) -> Iterator[str | None]:
    """Yield the input files; None for each option that was not given."""
    yield from (*arguments.logits, *arguments.target_logits)
    yield from (arguments.labels, arguments.counts, arguments.target_prior, arguments.costs)
    # These two also take values that are not files, such as a,b,c and auto.
    yield from (text for text in (arguments.classes, arguments.clusters) if text and text.endswith(".json"))


def open_evidence(arguments: argparse.Namespace) -> tuple[Evidence | MultilabelEvidence, ShardSet, Any]:
    """Return the evidence, its files, and the indices of the rows in use (None: all)."""
    shards = open_shards(arguments.logits, key=arguments.key)
    counts = read_counts(arguments.counts) if arguments.counts and not arguments.multilabel else None
    if arguments.classes:
        names = read_names(arguments.classes)
        if len(names) != shards.n_classes or shards.class_names not in (None, names):
            columns = f" [{some_of(shards.class_names)}]" if shards.class_names else ""
            raise EnergyAlignError(
                f"--classes must name the {shards.n_classes} columns of {arguments.logits[0]}{columns}, got "
                f"{len(names)} names [{some_of(names)}]."
            )
        shards.class_names = names
    counts, shards.class_names = counts_by_class(counts, shards.class_names, shards.n_classes, source=arguments.counts)
    if arguments.multilabel:
        marks = read_matrix(arguments.labels, "0 or 1 for each label") if arguments.labels else None
        pairs = read_matrix(arguments.counts, "samples without and with each label") if arguments.counts else None
        every_label = MultilabelEvidence.from_parts(
            shards.parts(), shards.n_classes, None if marks is None else to_rows(marks), counts=pairs,
            kind=arguments.evidence, class_names=shards.class_names, groups=shards.samples,
            ignore_index=arguments.ignore_index,
        )  # fmt: skip
        return every_label, shards, None
    labels = read_labels(arguments.labels, shards.class_names, shards.n_rows) if arguments.labels else shards.labels
    if arguments.report and labels is None:
        raise EnergyAlignError(REPORT_NEEDS_LABELS)
    samples = shards.samples
    parts: Sequence[LogitPart] = shards.parts()
    rows = None if labels is None else known_rows(labels, arguments.ignore_index)
    if labels is not None and rows is not None and len(labels) == shards.n_rows:
        parts, labels = keep_rows(parts, labels != arguments.ignore_index), labels[rows]
        samples = None if samples is None else samples[rows]
    evidence = Evidence.from_parts(
        parts, shards.n_classes, labels,
        counts=counts, kind=arguments.evidence, class_names=shards.class_names, groups=samples,
    )  # fmt: skip
    return evidence, shards, rows


def read_clusters(text: str, evidence: Evidence | MultilabelEvidence) -> Any:
    """Parse --clusters: return the clusters for `old:K` or a file, and any other value unchanged."""
    if text.startswith("old:") and text[4:].isdigit():
        return Clusters.old_new(range(int(text[4:])), evidence.n_classes)
    return read_assignment(text) if text.endswith(".json") else text


def read_target_prior(arguments: argparse.Namespace, evidence: Evidence | MultilabelEvidence) -> Any:
    """Return the target prior in the order of the columns; None if it was not given."""
    if not arguments.target_prior:
        return None
    prior, names = read_counts(arguments.target_prior), evidence.class_names
    return counts_by_class(prior, names, evidence.n_classes, source=arguments.target_prior)[0]


def read_costs(file: str | None, n_classes: int) -> Any:
    """Return the cost matrix in a JSON file; None without one."""
    if file is None:
        return None
    try:
        return Costs.make(read_json_file(file), n_classes).matrix
    except (OSError, ValueError) as error:
        raise EnergyAlignError(f"cannot read costs from {file}: {str(error).rstrip('.')}.") from error


def parse_minima(given: list[str] | None, option: str) -> dict[str, float] | None:
    """Parse pairs CLASS=NUMBER; classes are given by name, or by index if the columns have no names."""
    minima = {}
    for pair in given or ():
        name, _, number = pair.rpartition("=")
        try:
            minima[name] = float(number if name else "")
        except ValueError:
            raise EnergyAlignError(f"{option} must be CLASS=NUMBER, such as fraud=0.8, got {pair!r}.") from None
    return minima or None
