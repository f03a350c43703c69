"""Tables and progress bars of the commands. Bars appear only on a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, Self, TypeVar

from energyalign.core._io.terminal import clean_console, showing

if TYPE_CHECKING:
    from rich.console import Console

    from energyalign.core._engine.parts import Engine, Stretch
    from energyalign.files import ShardSet
    from energyalign.report.tables.model import PaperTable

Result = TypeVar("Result")


def make_console(stream: IO[str]) -> Console:
    """Return a console that does not wrap tables in files and pipes."""
    return clean_console(stream, width=None if stream.isatty() else 160)


def print_table(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print a table: text is aligned left, numbers right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, title=title or None, title_justify="left", title_style="bold")
    for index, name in enumerate(columns):
        numeric = all(_is_number(row[index]) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        # Text, not markup: a class may be named [red].
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def _is_number(cell: str) -> bool:
    return not cell or cell[:1] in "+-.0123456789"


def print_for_people(*tables: PaperTable) -> None:
    """Print tables that fit the width of the terminal, with an empty line between them."""
    for number, table in enumerate(tables):
        print("\n" if number else "", end="")
        if sys.stdout.isatty():
            from energyalign.report.tables.formats.terminal import show

            show(table, make_console(sys.stdout))
        else:
            print(table.render("terminal"), end="")


class Progress:
    """Progress bars of passes over shards or evidence; estimators make several passes."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._bar: Any = None
        self._shown = contextlib.ExitStack()
        if not quiet and sys.stderr.isatty():
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Bar(*columns, console=clean_console(sys.stderr), transient=True)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._shown.enter_context(showing(self._bar))
        return self

    def __exit__(self, *_: object) -> None:
        self._shown.close()

    def show(self, what: str) -> Callable[[int, int], None]:
        """Start a bar and return the function that updates it: ``update(done, total)``."""
        if self._bar is None:
            return lambda _done, _total: None
        task = self._bar.add_task(what)
        return lambda done, total: self._bar.update(task, completed=done, total=total)

    def watch(self, what: str, shards: ShardSet) -> Iterator[Any]:
        """Yield the blocks of the shards in the shape of the files, with a bar."""
        with self._task(what, shards.n_samples) as advance:
            for block in shards.sample_blocks():
                yield block
                advance(len(block))

    def engine(self, what: str, engine: Engine) -> Engine:
        """Return the engine with a bar for each pass."""
        return _EngineWithBar(self._task, what, engine)

    @contextlib.contextmanager
    def _task(self, what: str, total: int) -> Iterator[Callable[[int], object]]:
        """Show a bar for `total` rows; yields the function that advances it."""
        if self._bar is None:
            yield lambda _rows: None
            return
        task = self._bar.add_task(what, total=total)
        try:
            yield lambda rows: self._bar.advance(task, rows)
        finally:
            self._bar.remove_task(task)


class _EngineWithBar:
    def __init__(self, task: Callable[..., Any], what: str, engine: Engine) -> None:
        self._task, self._what, self._engine = task, what, engine
        self._passes = 0

    def map(self, work: Callable[[Stretch], Result], stretches: Sequence[Stretch]) -> Iterator[Result]:
        self._passes += 1
        what = f"{self._what}, pass {self._passes}" if self._passes > 1 else self._what
        with self._task(what, sum(stretch.n_rows for stretch in stretches)) as advance:
            for stretch, result in zip(stretches, self._engine.map(work, stretches), strict=True):
                yield result
                advance(stretch.n_rows)
