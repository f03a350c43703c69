"""Make a folder of results/ from the run directory of a finished long-tailed run.

python results/publish.py RUN results/CELL/LEARNER/SEED --data-root DATA

The folder is an ordinary run directory in a few megabytes: network without optimiser state, logits, rows, curve.
"""

from __future__ import annotations

import argparse
import csv
import shlex
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import torch
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.row import Row
from energyalign.experiments.engine.stored import Outputs, StoredRun, logits_file, measured_runs, predictions_file
from energyalign.experiments.engine.trained import Trained
from energyalign.experiments.longtail.config import LongTailConfig, LongTailRequest
from energyalign.experiments.longtail.experiment import LongTailExperiment
from energyalign.experiments.train.checkpoint import Position, save_checkpoint
from energyalign.experiments.train.run_directory import RunDirectory
from energyalign.experiments.train.tensor_file import save_arrays

PLANS = tuple(EvidencePlan(50, policy) for policy in ("none", "one", "two", "half"))


def publish(
    source: Path, target: Path, *, data_root: Path | None = None, without: Collection[str] = (),
    plans: Sequence[EvidencePlan] = PLANS,
) -> None:  # fmt: skip
    """Write the folder `target`; rows of the correctors in `without` stay behind."""
    if target.exists():
        raise EnergyAlignError(f"{target} exists: remove it first.")
    run = measured_runs([source])[0]
    if run.path != source:
        raise EnergyAlignError(f"{source} is no run directory: give the folder of a seed, such as {run.path}.")
    if run.in_steps:
        raise EnergyAlignError(f"{source} has its classes in steps: only long-tailed runs can be published so far.")
    rows = [row for row in run.rows if row.corrector not in without]
    if not rows:
        raise EnergyAlignError(f"{source} has no rows besides {', '.join(without)}.")
    trained = load_trained(source, data_root, rows)

    target.mkdir(parents=True)
    for name in ("config.json", "manifest.json"):
        shutil.copy(source / name, target)
    published = RunDirectory(target)
    published.write_rows([row.to_json() for row in rows])
    for command in run.commands:
        published.note_command(without_paths(command))
    write_curve(source / "tensorboard", target / "curve.csv")
    write_network(trained, published)
    write_test_logits(run, rows, target)
    for plan in plans:
        write_evidence(trained, plan, target)


def load_trained(source: Path, data_root: Path | None, rows: Sequence[Row]) -> Trained:
    """The trained network and its images, if they are those of the rows."""
    dataset = str(rows[0].config.values["dataset"])
    request = LongTailRequest(
        dataset=dataset, source=(str(source),), data_root=None if data_root is None else str(data_root)
    )
    config = LongTailConfig.from_json(request.finished()[0].config.to_json())
    experiment: LongTailExperiment = request.experiment(config, request.load_for(config))
    trained = next(experiment.steps(RunDirectory(source, writes=False)))
    for row in rows:
        if row.network_sha256 != trained.network_sha256:
            raise EnergyAlignError(
                f"the row of {row.corrector} is of another network than the checkpoint: measure it again."
            )
        if row.manifest != experiment.facts.manifest:
            raise EnergyAlignError(f"the images of {data_root} are not those of the run: give another --data-root.")
    return trained


def without_paths(command: str) -> str:
    """The command line with DATA and OUT for the folders of this machine."""
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
    """The scalars of the TensorBoard files as a table; of an epoch that was trained twice, the last."""
    epochs: dict[int, dict[str, float]] = {}
    for file in sorted(events.glob("events.out.tfevents.*")):
        for event in LegacyEventFileLoader(str(file)).Load():
            for value in event.summary.value:
                epochs.setdefault(event.step, {})[value.tag] = value.simple_value
    with path.open("w", newline="", encoding="utf-8") as stream:
        table = csv.DictWriter(stream, ("epoch", "loss", "lr", "images per second"), lineterminator="\n")
        table.writeheader()
        for epoch, values in sorted(epochs.items()):
            table.writerow({"epoch": epoch} | {name: f"{value:.6g}" for name, value in values.items()})


def write_network(trained: Trained, published: RunDirectory) -> None:
    """A checkpoint of the end of the training, with an optimiser that remembers nothing."""
    forgetful = torch.optim.SGD(trained.network.parameters(), lr=0.0)
    end = Position(trained.config.recipe.epochs + 1)
    save_checkpoint(published.checkpoints, end, trained.network, forgetful, config=published.config_sha256)


def write_test_logits(run: StoredRun, rows: Sequence[Row], target: Path) -> None:
    """In half precision if no prediction changes; predictions of rows that are no logits plus shifts."""
    outputs = run.outputs()
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
    """Whether these logits plus the shifts of the row give its predictions."""
    return row.shifts is not None and np.array_equal(outputs.shifted(row.shifts).argmax(axis=1), run.predictions(row))


def write_evidence(trained: Trained, plan: EvidencePlan, target: Path) -> None:
    """Logits and labels of the images that the rows of this plan were fitted on."""
    drawn = trained.evidence_features(plan)
    logits = np.concatenate([trained.scores(trained.network.head, block) for block in drawn.blocks])
    labels = np.asarray(drawn.all_labels())
    save_arrays(
        target / f"evidence-{plan.policy}-{plan.per_class}.safetensors",
        {"logits": logits.astype(np.float16), "labels": labels.astype(np.uint16)},
    )


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("target", type=Path, metavar="TARGET")
    parser.add_argument("--data-root", type=Path, metavar="DATA")
    parser.add_argument("--without", nargs="+", default=[], metavar="CORRECTOR", help="leave out these rows")
    arguments = parser.parse_args()
    try:
        publish(arguments.run, arguments.target, data_root=arguments.data_root, without=arguments.without)
    except EnergyAlignError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
