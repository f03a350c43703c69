"""Make a folder of results/ from the run directory of a finished run.

python results/publish.py RUN results/CELL/LEARNER/SEED --data-root DATA

The folder is an ordinary run directory in a few megabytes: network without optimiser state, logits, rows, curve.
"""

from __future__ import annotations

import argparse
import csv
import re
import shlex
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.experiment import Experiment
from energyalign.experiments.engine.row import Row
from energyalign.experiments.engine.stored import (
    Outputs,
    StoredRun,
    logits_file,
    measured_runs,
    predictions_file,
    step_folder,
)
from energyalign.experiments.engine.trained import Trained
from energyalign.experiments.incremental.config import IncrementalRequest
from energyalign.experiments.incremental.step import NETWORK, RECORD, STATE
from energyalign.experiments.longtail.config import LongTailRequest
from energyalign.experiments.train.checkpoint import Position, save_checkpoint
from energyalign.experiments.train.run_directory import RunDirectory
from energyalign.experiments.train.tensor_file import save_arrays

POLICIES = ("none", "one", "two", "half")
PLANS = tuple(EvidencePlan(50, policy) for policy in POLICIES)


def publish(
    source: Path, target: Path, *, data_root: Path | None = None, without: Collection[str] = (),
    plans: Sequence[EvidencePlan] = PLANS,
) -> None:  # fmt: skip
    """Write the folder `target`: rows of the correctors in `without` and evidence that no row used are left out."""
    if target.exists():
        raise EnergyAlignError(f"{target} exists: remove it first.")
    run = measured_runs([source])[0]
    if run.path != source:
        raise EnergyAlignError(f"{source} is no run directory: give the folder of a seed, such as {run.path}.")
    rows = [row for row in run.rows if row.corrector not in without]
    if not rows:
        raise EnergyAlignError(f"{source} has no rows besides {', '.join(without)}.")
    experiment = load_experiment(run, data_root)
    steps = list(experiment.steps(RunDirectory(source, writes=False)))
    check_rows(rows, steps, experiment.facts.manifest)

    target.mkdir(parents=True)
    for name in ("config.json", "manifest.json"):
        shutil.copy(source / name, target)
    published = RunDirectory(target)
    published.write_rows([row.to_json() for row in rows])
    for command in run.commands:
        published.note_command(without_paths(command))
    write_curve(source / "tensorboard", target / "curve.csv")
    for trained in steps:
        folder = step_folder(target, trained.number, in_steps=run.in_steps)
        folder.mkdir(exist_ok=True)
        write_network(trained, folder, published)
        write_test_logits(run, [row for row in rows if row.step == trained.number], folder)
        for plan in plans:
            fitted = [row for row in rows if (row.step, row.evidence) == (trained.number, plan) and row.estimator]
            if fitted:  # at step 1 there is nothing to correct
                write_evidence(trained, plan, fitted, folder)


def load_experiment(run: StoredRun, data_root: Path | None) -> Experiment[Any]:
    """Load the images of a finished run."""
    kind = IncrementalRequest if run.in_steps else LongTailRequest
    request = kind(
        dataset=str(run.config.values["dataset"]),
        source=(str(run.path),),
        data_root=None if data_root is None else str(data_root),
    )
    config = request.finished()[0].config
    experiment: Experiment[Any] = request.experiment(config, request.load_for(config))
    return experiment


def check_rows(rows: Sequence[Row], steps: Sequence[Trained], manifest: str) -> None:
    """Raise if a row was measured with another network or other images."""
    networks = {trained.number: trained.network_sha256 for trained in steps}
    for row in rows:
        if row.network_sha256 != networks[row.step]:
            raise EnergyAlignError(
                f"the row of {row.corrector} is of another network than the checkpoint: measure it again."
            )
        if row.manifest != manifest:
            raise EnergyAlignError("these are not the images of the run: give another --data-root.")


def without_paths(command: str) -> str:
    """Return the command line with DATA and OUT in place of folders of this machine."""
    words = shlex.split(command)
    for place, option in enumerate(words[:-1]):
        if option == "--data-root":
            words[place + 1] = "DATA"
        elif option == "--out":
            words[place + 1] = "OUT"
        elif option == "--from":
            words[place + 1] = "/".join(("OUT", *Path(words[place + 1]).parts[-2:]))
    return shlex.join(words)


def write_curve(events: Path, path: Path) -> None:
    """Write the scalars of the TensorBoard files as a table; if an epoch was trained twice, the last time counts."""
    epochs: dict[tuple[int, int], dict[str, float]] = {}
    for file in sorted(events.rglob("events.out.tfevents.*")):
        step = re.match(r"step (\d+) of", file.parent.name)  # each step has a folder of its own
        for event in LegacyEventFileLoader(str(file)).Load():
            for value in event.summary.value:
                key = (int(step[1]) if step else 1, event.step)
                epochs.setdefault(key, {})[value.tag] = value.simple_value
    with path.open("w", newline="", encoding="utf-8") as stream:
        table = csv.DictWriter(stream, ("step", "epoch", "loss", "lr", "images per second"), lineterminator="\n")
        table.writeheader()
        for (number, epoch), values in sorted(epochs.items()):
            scalars = {name: f"{value:.6g}" for name, value in values.items()}
            table.writerow({"step": number, "epoch": epoch} | scalars)


def write_network(trained: Trained, folder: Path, published: RunDirectory) -> None:
    """Write the trained network so that the run counts as finished; without the state of the optimiser."""
    if trained.config.in_steps:
        for name in (STATE, NETWORK, RECORD):
            shutil.copy(step_folder(trained.run.path, trained.number) / name, folder)
        return
    forgetful = torch.optim.SGD(trained.network.parameters(), lr=0.0)
    end = Position(trained.config.recipe.epochs + 1)
    save_checkpoint(published.checkpoints, end, trained.network, forgetful, config=published.config_sha256)


def write_test_logits(run: StoredRun, rows: Sequence[Row], target: Path) -> None:
    """Write the logits of a step, in half precision if no prediction changes, and predictions that do not follow."""
    outputs = run.outputs(rows[0].step)
    half = Outputs(outputs.logits.astype(np.float16).astype(np.float32), outputs.labels)
    follow = [row for row in rows if predicts(outputs, row, run)]
    exact = all(predicts(half, row, run) for row in follow)
    save_arrays(
        logits_file(target),
        {"logits": outputs.logits.astype(np.float16 if exact else np.float32), "labels": outputs.labels},
    )
    for row in rows:
        if row not in follow:
            path = predictions_file(target, row.corrector, row.evidence)
            path.parent.mkdir(exist_ok=True)
            save_arrays(path, {"predictions": run.predictions(row).astype(np.uint16)})


def predicts(outputs: Outputs, row: Row, run: StoredRun) -> bool:
    """Return whether these logits plus the shifts of the row give its predictions."""
    return row.shifts is not None and np.array_equal(outputs.shifted(row.shifts).argmax(axis=1), run.predictions(row))


def write_evidence(trained: Trained, plan: EvidencePlan, rows: Sequence[Row], target: Path) -> None:
    """Write logits and labels of the images that these rows were fitted on, in half precision as the test logits."""
    drawn = trained.evidence_features(plan)
    logits = np.concatenate([trained.scores(trained.network.head, block) for block in drawn.blocks])
    outputs = Outputs(logits, np.asarray(drawn.all_labels()))
    half = Outputs(logits.astype(np.float16).astype(np.float32), outputs.labels)
    # In a long tail, one prediction may decide the number of clusters. In steps there is no such choice.
    exact = trained.config.in_steps or all(
        np.array_equal(half.shifted(row.shifts).argmax(axis=1), outputs.shifted(row.shifts).argmax(axis=1))
        for row in rows
        if row.shifts is not None
    )
    save_arrays(
        target / f"evidence-{plan.policy}-{plan.per_class}.safetensors",
        {"logits": logits.astype(np.float16 if exact else np.float32), "labels": outputs.labels.astype(np.uint16)},
    )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("target", type=Path, metavar="TARGET")
    parser.add_argument("--data-root", type=Path, metavar="DATA")
    parser.add_argument("--without", nargs="+", default=[], metavar="CORRECTOR", help="leave out these rows")
    parser.add_argument(
        "--evidence-policy", nargs="+", choices=POLICIES, metavar="NAME", default=POLICIES,
        help=f"publish only the evidence of these policies (default: {' '.join(POLICIES)})",
    )  # fmt: skip
    arguments = parser.parse_args()
    try:
        publish(
            arguments.run, arguments.target, data_root=arguments.data_root, without=arguments.without,
            plans=[plan for plan in PLANS if plan.policy in arguments.evidence_policy],
        )  # fmt: skip
    except EnergyAlignError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
