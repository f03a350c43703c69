"""`energyalign fit`: estimate shifts from files of logits."""

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
    "Estimate one shift per class from the logits of a class-balanced sample, or of a labelled sample of any "
    "balance (it is weighted). Prints the shifts and writes them as JSON."
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
    """Add the options of the command."""
    add = parser.add_argument
    add("logits", nargs="+", metavar="LOGITS",
        help=".npy, .npz, .parquet or .csv files, samples x classes, or a quoted pattern such as 'shards/*.npy'; "
        "- reads stdin. A .npy file may also have one logit per sample (n, or n x 1), tokens (n x tokens x classes) or "
        "pixels (n x classes x height x width)")  # fmt: skip
    add(
        "--labels",
        metavar="FILE",
        help="class of each sample: .npy, .json or .csv (default: the samples are assumed to be class-balanced)",
    )
    add("--counts", metavar="FILE",
        help="training samples per class: .json (a list, or an object from name to count), .npy or .csv")  # fmt: skip
    add("--classes", metavar="NAMES",
        help="class names in the order of the columns, if the logits have none: a,b,c or a .json list")  # fmt: skip
    add("--multilabel", action="store_true",
        help="columns are independent labels with a sigmoid each: --labels is a .npy matrix of 0 and 1, --counts a "
        "matrix of training samples without and with each label (labels x 2)")  # fmt: skip
    add("--ignore-index", type=int, default=-100, metavar="N",
        help="label of samples, tokens or pixels to leave out (default: -100)")  # fmt: skip
    add("--estimator", default="auto", metavar="NAME",
        help="auto (default), or an estimator of `energyalign list methods`")  # fmt: skip
    add("--clusters", default="auto", metavar="HOW",
        help="which classes share a shift: auto (default), per-class, monotone, a number of Jenks clusters, jenks (the "
        "best number of them), old:K (the first K classes are old, the rest new), or a .json file with the cluster of "
        "each class")  # fmt: skip
    add("--evidence", default="training", choices=["training", "out-of-fold", "held-out"],
        help="where the samples come from; training (default) means that the model was trained on them")  # fmt: skip
    add("--target-prior", metavar="FILE",
        help="class frequencies to predict for, in the formats of --counts (default: uniform)")  # fmt: skip
    add("--target-logits", nargs="+", metavar="FILE",
        help="unlabelled logits of the target data, from which EM estimates the target prior")  # fmt: skip
    add("--scoring", default="balanced_accuracy", metavar="NAME",
        help="metric to optimise: balanced_accuracy (default), accuracy, f1 (of the second of two classes), f1_macro, "
        "f1_weighted, jaccard_macro (mean IoU), matthews_corrcoef, geometric_mean, or a scikit-learn "
        "scorer")  # fmt: skip
    add("--costs", metavar="FILE",
        help="costs to minimise, instead of --scoring: a .json list of rows, one per true class, with the cost of each "
        "prediction")  # fmt: skip
    add("--minimum-recall", nargs="+", metavar="CLASS=NUMBER", help="minimum recall of a class, such as fraud=0.8")
    add("--minimum-precision", nargs="+", metavar="CLASS=NUMBER", help="minimum precision of a class")
    add("--tau", type=float, default=1.0, help="scale of the estimator `prior` (default: 1)")
    add("--key", help="name of the .npz array, or of the .parquet list column, that holds the logits")
    add("--jobs", type=int, metavar="N",
        help="processes that share the files, with one thread each (default: one process with as many threads as "
        "OMP_NUM_THREADS allows); the result is bit-identical")  # fmt: skip
    add("--engine", default="local", choices=["local", "ray"], help="this machine (default) or a Ray cluster")
    add("--address", metavar="HOST:PORT",
        help="address of the Ray cluster (default: start one on this machine)")  # fmt: skip
    add("--out", metavar="FILE", help="write the shifts to this .json file; - is stdout")
    add("--report", metavar="FILE", help="also write an HTML page with results and interactive parts; needs labels")
    add("--quiet", action="store_true", help="print only warnings and errors")


def run(arguments: argparse.Namespace) -> None:
    """Read the evidence, fit, write the shifts, print the tables."""
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
            # Warnings are in shifts.concerns too, and are printed from there without file names and line numbers.
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
    # Write the file before printing: a closed pipe (| head) must not lose the result.
    _write(arguments, shifts)
    if arguments.report:
        _write_page(arguments, evidence=evidence, shifts=shifts, scores=scores)
    _print(arguments, evidence, shifts, scores)


@contextlib.contextmanager
def _naming_the_file(shards: ShardSet, rows: Any) -> Iterator[None]:
    """Prefix errors about a bad value with the file and row it is in; `rows` maps fitted samples to rows of files."""
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
            "give --target-prior or --target-logits, not both: the target prior is either given or estimated."
        )
    if arguments.target_logits and (arguments.costs or arguments.scoring != "balanced_accuracy"):
        raise EnergyAlignError(
            "--target-logits needs the default --scoring and no --costs: leave these out, or give --target-prior."
        )
    if arguments.multilabel and arguments.target_logits:
        raise EnergyAlignError(
            "--target-logits cannot be combined with --multilabel: leave one of them out. The column of one label can "
            "be fitted alone, as one logit of two classes."
        )
    if arguments.report == "-":
        raise EnergyAlignError("--report must be a file name, got - (stdout).")
    if arguments.report and arguments.multilabel and not arguments.labels:
        raise EnergyAlignError(inputs.REPORT_NEEDS_LABELS)
    if arguments.engine == "ray" and "-" in (*arguments.logits, *(arguments.target_logits or ())):
        raise EnergyAlignError(
            "--engine ray cannot read standard input: save it to a file that all machines of the cluster can read."
        )


def _aim_at(arguments: argparse.Namespace, shifts: Shifts, engine: Engine) -> Shifts:
    """Estimate the target prior from unlabelled target data, and return the shifts for it."""
    from energyalign.core.evidence import Evidence
    from energyalign.core.target_prior import estimate_target_prior
    from energyalign.files import open_shards

    shards = open_shards(arguments.target_logits, key=arguments.key)
    shards.match_columns(shifts, arguments.target_logits[0], arguments.logits[0])
    target = Evidence.from_parts(shards.parts(), shards.n_classes, engine=engine)
    return shifts.with_target(estimate_target_prior(target, shifts))


def _scores(evidence: Evidence | MultilabelEvidence, shifts: Any) -> Any:
    """Return the scores of the raw and the aligned model (one pair for each independent label); None without labels."""
    from energyalign.core.before_after import scores_with
    from energyalign.core.evidence import Evidence

    if isinstance(evidence, Evidence):
        return None if evidence.labels is None else scores_with(evidence, shifts.values)
    if evidence.labels[0].labels is None:
        return None
    return [scores_with(label, fitted.values) for label, fitted in zip(evidence.labels, shifts.labels, strict=True)]


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
    """Return a function that yields the fitted logits; for files of probabilities, their logarithms."""
    from energyalign.core.probabilities import log_probabilities

    def read() -> Iterator[Any]:
        for part in evidence.parts:
            yield from map(log_probabilities, part.blocks()) if shifts.from_probabilities else part.blocks()

    return read


def _print(
    arguments: argparse.Namespace,
    evidence: Evidence | MultilabelEvidence,
    shifts: Shifts | MultilabelShifts,
    scores: Any,
) -> None:
    from energyalign.cli import fit_tables as tables
    from energyalign.cli.terminal import make_console

    if not arguments.quiet:
        # With the result on stdout, tables go to stderr.
        console = make_console(sys.stderr if arguments.out == "-" else sys.stdout)
        tables.print_fit(console, evidence, shifts, scores)
        if arguments.out is None:
            console.print("The shifts were not saved: add --out shifts.json to keep them.")
        if arguments.report:
            console.print(f"Wrote {arguments.report}.", markup=False, soft_wrap=True)
        if arguments.out not in (None, "-"):
            following = f"energyalign apply LOGITS --shifts {arguments.out} --out corrected.npy"
            console.print(f"Wrote {arguments.out}. Next: {following}", markup=False, soft_wrap=True)
    for concern in shifts.concerns:
        print(f"energyalign: warning: {concern}", file=sys.stderr)


def _write(arguments: argparse.Namespace, shifts: Shifts | MultilabelShifts) -> None:
    if arguments.out == "-" and sys.stdout.isatty():
        sys.stdout.write(shifts.to_json())  # clean text: names are exact in pipes and files only
    elif arguments.out == "-":
        sys.stdout.buffer.write(shifts.to_json().encode())
    elif arguments.out is not None:
        shifts.save(arguments.out)
