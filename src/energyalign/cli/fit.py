"""`energyalign fit`: shifts from files of logits."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from energyalign.core._engine.parts import Engine
    from energyalign.core.evidence import Evidence
    from energyalign.core.multilabel import MultilabelEvidence, MultilabelShifts
    from energyalign.core.shifts import Shifts
    from energyalign.files import ShardSet
DESCRIPTION = (
    "Estimate one shift per class from logits on a class-balanced sample, or on a labelled sample of "
    "any balance (it is weighted). Prints what it found and writes it as JSON."
)
EXAMPLES = """\
examples:
  energyalign fit val_logits.npy --labels val_labels.npy --counts counts.json --evidence held-out --out shifts.json
  energyalign fit shards/*.npy --counts counts.json --estimator lse --clusters 8 --out shifts.json
  energyalign fit oof.csv --evidence out-of-fold --scoring f1_macro --out shifts.json
  energyalign fit oof.csv --evidence out-of-fold --minimum-recall fraud=0.8 --out shifts.json
  energyalign fit scored.csv --out shifts.json                 (a column named `label` holds the labels)
  energyalign fit 'shards/**/*.npy' --jobs 8 --out shifts.json  (more shards than a shell can pass on)
  energyalign fit maps.npy --labels masks.npy --ignore-index 255 --out shifts.json     (n x classes x height x width)
  energyalign fit logits.npy --labels marks.npy --multilabel --out shifts.json
  export_logits | energyalign fit - --estimator marginal --out - > shifts.json
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Of the command."""
    add = parser.add_argument
    add(
        "logits",
        nargs="+",
        metavar="LOGITS",
        help=".npy, .npz, .parquet or .csv shards, samples x classes, or a quoted pattern of their names; - is stdin; "
        ".npy also of one logit (n, or n x 1), tokens (n x tokens x classes) or pixels (n x classes x height x width)",
    )
    add("--labels", metavar="FILE", help="class of each sample: .npy, .json or .csv")
    add("--counts", metavar="FILE", help="training samples per class: a JSON list, or names to counts; .npy; .csv")
    add("--classes", metavar="NAMES",
        help="names of the columns in their order, if the file of logits has none: a,b,c or a JSON list")  # fmt: skip
    add("--multilabel", action="store_true",
        help="columns are independent labels, each with a sigmoid: --labels is a .npy matrix of 0 and 1, --counts one "
        "of training samples without and with each label (labels x 2)")  # fmt: skip
    add("--ignore-index", type=int, default=-100, metavar="N",
        help="label of samples, tokens or pixels that are left out (default: -100)")  # fmt: skip
    add("--estimator", default="auto", metavar="NAME", help="auto (default), or one of `energyalign list methods`")
    add("--clusters", default="auto", metavar="HOW",
        help="which classes share a shift: auto, per-class, monotone, a number of Jenks clusters, jenks for the best, "
        "old:K (the first K classes are old, the rest new), or a JSON file with the cluster of each class")  # fmt: skip
    add("--evidence", default="training", choices=["training", "out-of-fold", "held-out"],
        help="whether the model was trained on these samples (default: training, the careful assumption)")  # fmt: skip
    add("--target-prior", metavar="FILE", help="label distribution to predict for (default: uniform)")
    add("--target-logits", nargs="+", metavar="FILE",
        help="unlabelled logits of the target data, from which its label distribution is estimated (EM)")  # fmt: skip
    add("--scoring", default="balanced_accuracy", metavar="NAME",
        help="what the predictions should be best at: balanced_accuracy (default), accuracy, f1 (of the second of "
        "two classes), f1_macro, f1_weighted, jaccard_macro (mean IoU), matthews_corrcoef, geometric_mean, or a "
        "scikit-learn scorer")  # fmt: skip
    add("--costs", metavar="FILE",
        help="instead of --scoring: a JSON list of lists, for each true class what each prediction costs")  # fmt: skip
    add("--minimum-recall", nargs="+", metavar="CLASS=NUMBER", help="recalls that must be reached, such as fraud=0.8")
    add("--minimum-precision", nargs="+", metavar="CLASS=NUMBER", help="precisions that must be reached")
    add("--tau", type=float, default=1.0, help="scale of estimator `prior` (default: 1)")
    add("--key", help="which array of an .npz file, or list column of a .parquet file, holds the logits")
    add("--jobs", type=int, metavar="N",
        help="local processes that share the shards, with one thread each (default: threads of one process, as many as "
        "OMP_NUM_THREADS allows); the result is the same to the bit")  # fmt: skip
    add("--engine", default="local", choices=["local", "ray"], help="this machine (default) or a Ray cluster")
    add("--address", metavar="A", help="of the Ray cluster; without it one is started on this machine")
    add("--out", metavar="FILE", help="where to write the shifts (JSON); - is stdout")
    add("--report", metavar="FILE", help="also write a page to look at and to try it, if there are labels (HTML)")
    add("--quiet", action="store_true", help="print no tables and no progress; warnings and errors stay")


def run(arguments: argparse.Namespace) -> None:
    """Read, fit, print, write."""
    import warnings

    from energyalign.cli import fit_inputs as inputs
    from energyalign.cli.process import share_one_heap
    from energyalign.cli.terminal import Progress
    from energyalign.core._io.atomic import check_outputs
    from energyalign.core.errors import UntrustedEstimateWarning
    from energyalign.core.multilabel import fit_head
    from energyalign.core.shifts import Shifts
    from energyalign.files.engines import open_engine
    from energyalign.files.shards import expand_patterns

    share_one_heap()
    _refuse_contradictions(arguments)
    arguments.logits = expand_patterns(arguments.logits)
    arguments.target_logits = expand_patterns(arguments.target_logits or [])
    check_outputs([arguments.out, arguments.report], inputs.files(arguments))
    evidence, shards, rows = inputs.open_evidence(arguments)
    with (
        open_engine(arguments.engine, jobs=arguments.jobs, address=arguments.address) as engine,
        Progress(quiet=arguments.quiet) as progress,
    ):
        evidence = evidence.with_engine(progress.engine("reading logits", engine))
        with warnings.catch_warnings(), _naming_the_file(shards, rows):
            # They are on the result too, and printed from there without a traceback's noise.
            warnings.simplefilter("ignore", UntrustedEstimateWarning)
            shifts = fit_head(
                evidence,
                estimator=arguments.estimator,
                clusters=inputs.read_clusters(arguments.clusters, evidence),
                target_prior=inputs.read_target_prior(arguments, evidence),
                tau=arguments.tau,
                scoring=arguments.scoring,
                costs=inputs.read_costs(arguments.costs, 2 if arguments.multilabel else evidence.n_classes),
                minimum_recall=inputs.parse_minima(arguments.minimum_recall, "--minimum-recall"),
                minimum_precision=inputs.parse_minima(arguments.minimum_precision, "--minimum-precision"),
            )
        if arguments.target_logits and isinstance(shifts, Shifts):
            shifts = _aim_at(arguments, shifts, progress.engine("target prior", engine))
        scores = _scores(evidence.with_engine(progress.engine("scoring", engine)), shifts)
    # The file first: a reader of the tables that goes away (| head) must not cost the result.
    _write(arguments, shifts)
    if arguments.report:
        _write_page(arguments, evidence=evidence, shifts=shifts, scores=scores)
    _report(arguments, evidence, shifts, scores)


@contextlib.contextmanager
def _naming_the_file(shards: ShardSet, rows: Any) -> Iterator[None]:
    """For a bad number, which the fit knows by its place among the rows that it was given, of these numbers."""
    from energyalign.core.errors import BadValueError, EnergyAlignError

    try:
        yield
    except BadValueError as error:
        if error.sample is None:
            raise
        row = error.sample if rows is None else int(rows[error.sample])
        raise EnergyAlignError(f"{shards.place_of(row)}: {error}") from error


def _refuse_contradictions(arguments: argparse.Namespace) -> None:
    from energyalign.cli import fit_inputs as inputs
    from energyalign.core.errors import EnergyAlignError

    if arguments.target_prior and arguments.target_logits:
        raise EnergyAlignError(
            "--target-prior and --target-logits exclude each other: the target is given or estimated."
        )
    if arguments.target_logits and (arguments.costs or arguments.scoring != "balanced_accuracy"):
        raise EnergyAlignError(
            "--target-logits is for balanced accuracy: leave out --scoring and --costs, or give --target-prior instead."
        )
    if arguments.multilabel and arguments.target_logits:
        raise EnergyAlignError(
            "--target-logits is for classes: leave it out with --multilabel, or fit the column of one label without "
            "it, as one logit of two classes."
        )
    if arguments.report == "-":
        raise EnergyAlignError("--report writes a page to a file: give it a name.")
    if arguments.report and arguments.multilabel and not arguments.labels:
        raise EnergyAlignError(inputs.REPORT_NEEDS_LABELS)
    if arguments.engine == "ray" and "-" in (*arguments.logits, *(arguments.target_logits or ())):
        raise EnergyAlignError(
            "standard input cannot be read by a Ray cluster: save it to a file that all its machines see."
        )


def _aim_at(arguments: argparse.Namespace, shifts: Shifts, engine: Engine) -> Shifts:
    """The same shifts for the label distribution of unlabelled target data."""
    from energyalign.core.evidence import Evidence
    from energyalign.core.target_prior import estimate_target_prior
    from energyalign.files import open_shards

    shards = open_shards(arguments.target_logits, key=arguments.key)
    shards.match_columns(shifts, arguments.target_logits[0], arguments.logits[0])
    target = Evidence.from_parts(shards.parts(), shards.n_classes, engine=engine)
    return shifts.with_target(estimate_target_prior(target, shifts))


def _scores(evidence: Evidence | MultilabelEvidence, shifts: Any) -> Any:
    """Before and after, of classes or of each label; None without labels."""
    from energyalign.core.before_after import scores_with
    from energyalign.core.evidence import Evidence

    if isinstance(evidence, Evidence):
        return None if evidence.labels is None else scores_with(evidence, shifts.values)
    if evidence.labels[0].labels is None:
        return None
    return [scores_with(own, found.values) for own, found in zip(evidence.labels, shifts.labels, strict=True)]


def _write_page(
    arguments: argparse.Namespace, *, evidence: Evidence | MultilabelEvidence, shifts: Any, scores: Any
) -> None:
    from energyalign.cli.process import command_line
    from energyalign.core.evidence import Evidence

    name = arguments.logits[0] + (f" and {len(arguments.logits) - 1} more" if len(arguments.logits) > 1 else "")
    command = command_line(arguments)
    if not isinstance(evidence, Evidence):
        from energyalign.report.page.labels_page import write_labels_page

        write_labels_page(arguments.report, name=name, command=command, shifts=shifts, scores=scores)
        return
    from energyalign.report.page.fit_page import write_fit_page

    assert evidence.labels is not None  # or the report would have been refused
    write_fit_page(
        arguments.report, name=name, command=command, blocks=_blocks(evidence, shifts),
        labels=evidence.labels, evidence=evidence, shifts=shifts, scores=scores,
    )  # fmt: skip


def _blocks(evidence: Evidence, shifts: Shifts) -> Callable[[], Iterator[Any]]:
    """The logits as they were fitted on: of probabilities, their logarithm."""
    from energyalign.core.probabilities import log_probabilities

    def read() -> Iterator[Any]:
        for part in evidence.parts:
            yield from map(log_probabilities, part.blocks()) if shifts.from_probabilities else part.blocks()

    return read


def _report(
    arguments: argparse.Namespace,
    evidence: Evidence | MultilabelEvidence,
    shifts: Shifts | MultilabelShifts,
    scores: Any,
) -> None:
    from energyalign.cli import fit_tables as tables
    from energyalign.cli.terminal import make_console

    if not arguments.quiet:
        # With the result on stdout, what is for people goes to stderr.
        console = make_console(sys.stderr if arguments.out == "-" else sys.stdout)
        tables.print_fit(console, evidence, shifts, scores)
        if arguments.out is None:
            console.print("Nothing was saved: add --out shifts.json to keep the shifts.")
        if arguments.report:
            console.print(f"Wrote {arguments.report}.", markup=False, soft_wrap=True)
        if arguments.out not in (None, "-"):
            saved = f"Saved. Now: energyalign apply LOGITS --shifts {arguments.out} --out corrected.npy"
            console.print(saved, markup=False, soft_wrap=True)
    for concern in shifts.concerns:
        print(f"energyalign: warning: {concern}", file=sys.stderr)


def _write(arguments: argparse.Namespace, shifts: Shifts | MultilabelShifts) -> None:
    if arguments.out == "-":
        sys.stdout.buffer.write(shifts.to_json().encode())
    elif arguments.out is not None:
        shifts.save(arguments.out)
