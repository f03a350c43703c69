"""The demo from start to files: every seed, the table, the picture, the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from energyalign.core.atomic import atomic_write
from energyalign.core.errors import EnergyAlignError
from energyalign.demo import summary
from energyalign.demo.digits import load_long_tail, long_tail_counts
from energyalign.demo.experiment import run_seed

N_SEEDS = 5
_BEFORE, _AFTER = "raw", "energy aligning, lse (paper)"


@dataclass(frozen=True)
class DemoResult:
    """The table, what it says, and the files that were written."""

    columns: list[str]
    rows: list[list[str]]
    measured: str
    files: tuple[Path, ...]


def run_demo(out: str | Path, *, first_seed: int, say: Callable[[str], None]) -> DemoResult:
    """Run all seeds and write rows.jsonl, manifest.json, energies.png and report.html into `out`."""
    if first_seed < 0:
        raise EnergyAlignError(f"the first seed is {first_seed}; it must not be negative.")
    folder = _make_folder(Path(out))
    seeds = range(first_seed, first_seed + N_SEEDS)
    counts = long_tail_counts()
    say(f"Handwritten digits, training images per class: {', '.join(map(str, counts))}.")
    rows: list[dict[str, Any]] = []
    manifests = []
    for number, seed in enumerate(seeds, start=1):
        data = load_long_tail(seed)
        manifests.append(data.manifest)
        say(f"Seed {seed} ({number} of {N_SEEDS}, manifest {data.manifest['sha256'][:12]}): training and aligning.")
        rows += run_seed(data, seed)
    columns, lines = summary.table(rows, counts)
    measured = summary.measured(seeds, counts)
    with atomic_write(folder / "rows.jsonl") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in rows)
    with atomic_write(folder / "manifest.json") as stream:
        json.dump(manifests, stream)
    picture = _draw(folder / "energies.png", rows, counts, say)
    _write_page(folder / "report.html", columns, lines, measured, picture)
    names = ("report.html", "energies.png", "rows.jsonl", "manifest.json")
    files = tuple(folder / name for name in names if name != "energies.png" or picture is not None)
    return DemoResult(columns, lines, measured, files)


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnergyAlignError(f"cannot make the folder {folder}: {error.strerror}. Choose another --out.") from error
    return folder


def _draw(path: Path, rows: list[dict[str, Any]], counts: Any, say: Callable[[str], None]) -> Path | None:
    try:
        from energyalign.report.energies_figure import draw_energies
    except ModuleNotFoundError:
        say("No picture: it needs matplotlib (pip install 'energyalign[report]').")
        return None
    draw_energies(
        path,
        counts=counts,
        before=summary.energies(rows, _BEFORE),
        after=summary.energies(rows, _AFTER),
        title="Free energies follow the training counts; aligning brings them together",
    )
    return path


def _write_page(path: Path, columns: list[str], rows: list[list[str]], measured: str, picture: Path | None) -> None:
    from energyalign.report.page import Figure, write_page

    figures = []
    if picture is not None:
        caption = (
            "Training images per class (bars) and negative free energy per class on the balanced held-out images "
            "(points; error bars are one standard deviation over seeds; each seed centred on its mean), for the raw "
            "network and after energy aligning with the paper's estimator, whose shifts come from the training images."
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
