"""A progress bar on stderr for inputs that take a while; nothing when nobody is looking."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    from energyalign.core._engine.parts import Engine, Stretch
    from energyalign.files import ShardSet

Result = TypeVar("Result")


class Progress:
    """Watches passes over shards, or over evidence in parts, which estimators go through several times."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._bar: Any = None
        if not quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def watch(self, what: str, shards: ShardSet) -> Iterator[Any]:
        """The blocks of the shards, showing how far they are read."""
        with self._task(what, shards.n_rows) as advance:
            for block in shards.blocks():
                yield block
                advance(len(block))

    def engine(self, what: str, engine: Engine) -> Engine:
        """The engine with a bar for each pass, which moves with every part that is done."""
        return _Watched(self._task, what, engine)

    @contextlib.contextmanager
    def _task(self, what: str, total: int) -> Iterator[Callable[[int], object]]:
        """A bar for so many rows, and the function that moves it."""
        if self._bar is None:
            yield lambda _rows: None
            return
        task = self._bar.add_task(what, total=total)
        try:
            yield lambda rows: self._bar.advance(task, rows)
        finally:
            self._bar.remove_task(task)


class _Watched:
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
