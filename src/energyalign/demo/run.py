"""The demo from start to files: both heads, every seed, the table, the picture, the page."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from energyalign.core.atomic import atomic_write
from energyalign.core.errors import EnergyAlignError
from energyalign.demo import summary
from energyalign.experiment.evidence import EvidencePlan
from energyalign.experiment.rows import Row
from energyalign.longtail.config import LongTailConfig
from energyalign.longtail.correctors import STANDARD
from energyalign.longtail.experiment import LongTailExperiment
from energyalign.longtail.presets import PRESETS
from energyalign.report.page import Figure, write_page

PRESET = PRESETS["digits-lt-50"]
HEADS = ("cosine", "linear")
N_SEEDS = 3
_EVIDENCE = EvidencePlan()
_BEFORE, _AFTER = "raw", "ea"


@dataclass(frozen=True)
class DemoResult:
    """The table, what it says, and the files that were written."""

    columns: list[str]
    rows: list[list[str]]
    measured: str
    files: tuple[Path, ...]


def run_demo(out: str | Path, *, first_seed: int, say: Callable[[str], None]) -> DemoResult:
    """Train and measure, in run directories below `out`; write rows.jsonl, energies.png and report.html there.

    Interrupted, the same call goes on where it stopped.
    """
    if first_seed < 0:
        raise EnergyAlignError(f"the first seed is {first_seed}; it must not be negative.")
    out = Path(out)
    seeds = range(first_seed, first_seed + N_SEEDS)
    rows: dict[Path, list[Row]] = {}
    n_test = 0
    with _one_thread():
        for head in HEADS:
            for seed in seeds:
                config = LongTailConfig.from_preset(replace(PRESET, head=head), seed=seed)
                experiment = LongTailExperiment(config)
                folder = _made(out / head / f"seed-{seed}")
                if not rows:
                    _introduce(experiment, say)
                rows[folder] = experiment.run(folder, list(STANDARD), _EVIDENCE)
                n_test = len(experiment.data.test)
                say(f"{head} head, seed {seed}: {_accuracies(rows[folder])}")
                for row in rows[folder]:
                    for concern in row["concerns"]:
                        say(f"  warning, {row['corrector']}: {concern}")
    return _write(out, rows, n_test, say)


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnergyAlignError(f"cannot make the folder {folder}: {error.strerror}. Choose another --out.") from error
    return folder


def _introduce(experiment: LongTailExperiment, say: Callable[[str], None]) -> None:
    data, recipe = experiment.data, experiment.config.recipe
    say(
        f"Handwritten digits, training images per class: {', '.join(map(str, data.counts))} (manifest "
        f"{data.manifest.short_hash}). A small CNN, {recipe.epochs} epochs, {len(HEADS)} heads x {N_SEEDS} seeds."
    )


def _accuracies(rows: list[Row]) -> str:
    return ", ".join(f"{row['corrector']} {100 * row['overall']:.1f}" for row in rows)


def _write(out: Path, rows: dict[Path, list[Row]], n_test: int, say: Callable[[str], None]) -> DemoResult:
    together = [row for of_run in rows.values() for row in of_run]
    columns, lines = summary.table(together)
    measured = summary.measured(together, n_test=n_test, per_class=_EVIDENCE.per_class)
    with atomic_write(out / "rows.jsonl") as stream:
        stream.writelines(json.dumps(row, sort_keys=True) + "\n" for row in together)
    picture = _draw(out / "energies.png", rows, say)
    _write_page(out / "report.html", columns, lines, measured, picture)
    names = ["report.html", *([] if picture is None else ["energies.png"]), "rows.jsonl"]
    return DemoResult(columns, lines, measured, tuple(out / name for name in names))


def _draw(path: Path, rows: dict[Path, list[Row]], say: Callable[[str], None]) -> Path | None:
    try:
        from energyalign.report.energies_figure import draw_energies
    except ModuleNotFoundError:
        say("No picture: it needs matplotlib (pip install 'energyalign[report]').")
        return None
    of_cosine = {folder: of_run for folder, of_run in rows.items() if of_run[0]["config"]["head"] == HEADS[0]}
    chosen = {
        name: [row for of_run in of_cosine.values() for row in of_run if row["corrector"] == name]
        for name in (_BEFORE, _AFTER)
    }
    draw_energies(
        path,
        counts=chosen[_BEFORE][0]["counts"],
        before=summary.energies(list(of_cosine), chosen[_BEFORE]),
        after=summary.energies(list(of_cosine), chosen[_AFTER]),
        title="Free energies follow the training counts; aligning brings them together",
    )
    return path


def _write_page(path: Path, columns: list[str], rows: list[list[str]], measured: str, picture: Path | None) -> None:
    figures = []
    if picture is not None:
        caption = (
            "Training images per class (bars) and negative free energy per class on the balanced test images (points; "
            "error bars are one standard deviation over seeds; each seed centred on its mean), for the raw network "
            "with a cosine head and after energy aligning as in the paper, whose shifts come from the training images."
        )
        figures.append(Figure(picture, caption))
    write_page(
        path,
        title="energyalign demo: digits, cut to a long tail",
        command="energyalign demo",
        paragraphs=[measured],
        columns=columns,
        rows=rows,
        figures=figures,
    )


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """A network this small gains nothing from more threads, and they would fight over a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
