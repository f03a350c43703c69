"""Run the demo: real logits, both applications with every seed, the tables and the page."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from energyalign.core._io.atomic import atomic_write
from energyalign.core.errors import EnergyAlignError, some_of
from energyalign.demo.class_incremental import ClassIncremental
from energyalign.demo.long_tail import LongTail
from energyalign.demo.part import EVIDENCE, DemoPart, DemoSection, Results, all_rows
from energyalign.demo.real_logits import real_logits
from energyalign.experiments.engine.row import Row
from energyalign.experiments.engine.stored import find_runs
from energyalign.experiments.train.run_directory import refuse_run_directory
from energyalign.report.page import document
from energyalign.report.page.write import write_page
from energyalign.report.tables.model import as_text
from energyalign.report.tables.own import describe_row

N_SEEDS = 3


@dataclass(frozen=True)
class DemoResult:
    """Sections to print, and the files that were written."""

    sections: Sequence[DemoSection]
    files: tuple[Path, ...]


def run_demo(
    out: str | Path, *, first_seed: int, say: Callable[[str], None], show: Callable[[DemoSection], None]
) -> DemoResult:
    """Show real logits, then train and measure in run directories below `out`; write rows.jsonl and report.html there.

    After an interruption, the same call resumes.
    """
    if first_seed < 0:
        raise EnergyAlignError(f"the first seed must be >= 0, got {first_seed}.")
    out = Path(out)
    refuse_run_directory(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnergyAlignError(f"cannot make the folder {out}: {error.strerror}. Choose another --out.") from error
    real = real_logits()
    show(real)
    seeds = range(first_seed, first_seed + N_SEEDS)
    parts: list[DemoPart] = [LongTail(seeds), ClassIncremental(seeds)]
    with _one_thread():
        results = [measure(part, out, say) for part in parts]
    sections = [part.section(of_part) for part, of_part in zip(parts, results, strict=True)]
    with atomic_write(out / "rows.jsonl") as stream:
        stream.writelines(
            json.dumps(row.to_json(), sort_keys=True) + "\n" for of_part in results for row in all_rows(of_part)
        )
    runs = find_runs([folder for of_part in results for folder in of_part])
    write_page(out / "report.html", runs, title="energyalign demo: digits", first=_on_page(real))
    return DemoResult(sections, (out / "report.html", out / "rows.jsonl"))


def measure(part: DemoPart, out: Path, say: Callable[[str], None]) -> Results:
    """Run or resume all trainings of an application, and report each one; each warning is given once."""
    say(part.introduction)
    results = {}
    warned: dict[str, list[str]] = {}
    for run in part.runs(out):
        rows = run.experiment.run(run.folder, part.correctors, EVIDENCE)
        say(f"{run.name}: {_accuracies(rows)}")
        for row in rows:
            for concern in row.concerns:
                warned.setdefault(concern, []).append(describe_row(row))
        results[run.folder] = rows
    for concern, of_rows in warned.items():
        say(f"  warning, {some_of(of_rows)}: {concern}")
    return results


def _on_page(section: DemoSection) -> document.Section:
    """Return a section of the demo as a section of the page."""
    html = "".join(document.table_html(*as_text(table), table.title) for table in section.tables)
    return document.Section(section.title, html + "".join(map(document.note_html, section.paragraphs)))


def _accuracies(rows: Sequence[Row]) -> str:
    """Return the balanced accuracy of each corrector, after the last step."""
    last = [row for row in rows if row.step == rows[-1].step]
    return ", ".join(f"{row.corrector} {100 * row.balanced:.1f}" for row in last)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: more threads do not speed up so small a network, and slow it down on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
