"""Experiments from Python: run them, and work with their results."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import numpy as np

from energyalign.core._io.terminal import clean
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.request import RunRequest
from energyalign.experiments.engine.stored import ResultRows, StoredRun, measured_runs
from energyalign.experiments.train.reporter import Narrator, Reporter

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]
    from matplotlib.figure import Figure

    from energyalign.experiments.data.sources import Source
    from energyalign.experiments.engine.row import Row


@dataclass(frozen=True, eq=False, repr=False)
class Results:
    """Results of runs.

    Attributes
    ----------
    rows : ResultRows
        One for each corrector, seed, step and kind of evidence.
    folders : tuple of Path
        The run directories, for ``energyalign report`` and other commands.
    """

    rows: ResultRows
    folders: tuple[Path, ...]

    @property
    def frame(self) -> pandas.DataFrame:
        """The rows as a data frame."""
        return self.rows.to_frame()

    @property
    def runs(self) -> list[StoredRun]:
        """The stored runs, with logits and predictions, and with no other rows than `rows`."""
        from energyalign.report.selection import keep_rows

        runs, wanted = measured_runs(self.folders), set(map(_identity, self.rows))
        return keep_rows(runs, (row for run in runs for row in run.rows if _identity(row) in wanted))

    def where(self, **values: Any) -> Results:
        """Select the rows with these values: ``results.where(seed=[0, 1], corrector="ea")``.

        Keys are the same as in ``energyalign table --where``, with ``__`` for a dot: ``recipe__batch_size=128``.
        """
        from energyalign.report.selection import conditions, select_rows

        return Results(select_rows(self.rows, conditions(**values)), self.folders)

    def figure(
        self, name: str, *, rows: Sequence[str] = (), width: str | float | None = None, font_size: float | None = None,
        title: str | None = None,
    ) -> Figure:  # fmt: skip
        """Draw a figure of ``energyalign list figures``, such as ``groups`` or ``energies``.

        Parameters
        ----------
        name : str
        rows : sequence of str, default ()
            Correctors or methods to show, such as ``["raw", "ea*"]``; all if empty. See also `where`.
        width : float or str or None, default None
            Width in inches, or ``column`` or ``page`` of a paper; None for as wide as the panels need.
        font_size : float or None, default None
            Font size in points; None for 9, or 8 if a width is given.
        title : str or None, default None
            Title; None for one that describes the figure, empty for no title.
        """
        from energyalign.experiments.engine.config import look_up
        from energyalign.report.drawing import Style
        from energyalign.report.figures import FIGURES
        from energyalign.report.selection import select_named

        entry, style = look_up(FIGURES, name, "figure"), Style.make(width, font_size, title)
        return entry.draw(select_named(self.runs, rows), style)

    def compare(self, first: str, second: str) -> pandas.DataFrame:
        """Compare two correctors behind every training, over test images, and over seeds if there are several.

        Like ``energyalign compare``: balanced accuracies in %, their difference with standard error and 95 % interval
        (paired bootstrap over test images, paired t over seeds), and McNemar's test.
        """
        import pandas

        from energyalign.report.comparison import comparison_table, pairs_within

        table = comparison_table(pairs_within(self.runs, (first, second)))
        names = [f"{column.group}, {column.title}".removeprefix(", ") for column in table.columns]
        cells = [[cell.mean for cell in line.cells] for line in table.lines]
        return pandas.DataFrame(cells, columns=names, index=[name for name, _ in table.named_lines])

    def __repr__(self) -> str:
        from energyalign.report.tables.formats.terminal import to_terminal
        from energyalign.report.tables.own import tables_of

        return "\n".join(map(to_terminal, tables_of(self.rows)))


def _identity(row: Row) -> tuple[Any, ...]:
    """Return what distinguishes a row from those of other runs and from others of its run."""
    return row.network_sha256, row.memory, row.fed_back, row.key


def run(
    kind: type[RunRequest], dataset: str | Source, *, methods: Iterable[str], correctors: Iterable[str],
    seeds: Iterable[int], out: str | Path | None, progress: bool, options: Mapping[str, Any],
) -> Results:  # fmt: skip
    """Train what is missing and measure; the parameters are the same as for `energyalign.experiments.longtail`."""
    from lightning_fabric import Fabric

    from energyalign.experiments.engine.experiment import Work, refuse_other_settings
    from energyalign.report.tables.own import describe_row

    lists = {"method": methods, "corrector": correctors, "seed": seeds}
    request = _make_request(kind, dataset, lists, out, options)
    work = Work.of(request)
    refuse_other_settings(request.accelerator, work.precision)
    fabric = Fabric(accelerator=request.accelerator, devices=1, precision=work.precision)
    narrate = partial(Narrator, log=request.log)
    rows = work.do(fabric=fabric, reporter_of=narrate if progress else lambda _title, _curves: Reporter())
    for row in rows:
        for concern in row.concerns if progress else ():
            print(clean(f"warning: {describe_row(row)}: {concern}"), file=sys.stderr)
    return Results(ResultRows(rows), tuple(work.runs))


def _make_request(
    kind: type[RunRequest], dataset: str | Source, lists: Mapping[str, Iterable[Any]], out: str | Path | None,
    options: Mapping[str, Any],
) -> RunRequest:  # fmt: skip
    named = (*lists, "dataset", "out", "own_source", "devices", "nodes")  # these need the command line
    known = [item.name for item in fields(kind) if item.name not in named]
    unknown = sorted(options.keys() - known)
    if unknown:
        choices = ", ".join([*(f"{option}s" for option in lists), "out", "progress", *known])
        raise EnergyAlignError(f"unknown option {unknown[0]!r}: choose one of {choices}.")
    name, source = (dataset, None) if isinstance(dataset, str) else (dataset.name, dataset)
    hints = get_type_hints(kind)
    given = {option: _convert(option, value, hints[option]) for option, value in options.items()}
    given |= {option: _convert(f"{option}s", value, hints[option]) for option, value in lists.items()}
    return kind(dataset=name, own_source=source, out=None if out is None else str(out), **given)


def _convert(name: str, value: Any, hint: Any) -> Any:
    """Convert the value of an option as the command line would store it, or raise if it is not of its type.

    `hint` is a type such as ``int | None`` or ``tuple[str, ...]``.
    """
    if get_origin(hint) is not tuple:
        kinds = get_args(hint) or (hint,)
        return None if value is None and NoneType in kinds else _convert_scalar(name, value, kinds[0])
    if name == "source" and isinstance(value, (str, Path)):
        return (str(value),)
    if isinstance(value, (str, Path)) or not isinstance(value, Iterable):
        raise EnergyAlignError(f"{name} must be a list, got {value!r}: write [{value!r}].")
    return tuple(_convert_scalar(name, item, get_args(hint)[0]) for item in value)


def _convert_scalar(name: str, value: Any, kind: type) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    accepted = {int: (int,), float: (int, float), bool: (bool,), str: (str, Path)}[kind]
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        words = {int: "a whole number", float: "a number", bool: "True or False", str: "a string"}
        raise EnergyAlignError(f"{name} must be {words[kind]}, got {value!r:.80}.")
    return str(value) if isinstance(value, Path) else value
