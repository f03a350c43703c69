"""A progress bar on stderr for inputs that take a while; nothing when nobody is looking."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from energyalign.files import ShardSet


class Progress:
    """Watches passes over shards. Estimators read the evidence several times: each pass is one bar."""

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

    def watch(self, what: str, shards: ShardSet) -> Callable[[], Iterator[Any]]:
        """A function that reads the shards from the start, showing how far it is."""
        passes = 0

        def read() -> Iterator[Any]:
            nonlocal passes
            if self._bar is None:
                yield from shards.blocks()
                return
            passes += 1
            task = self._bar.add_task(f"{what}, pass {passes}" if passes > 1 else what, total=shards.n_rows)
            try:
                for block in shards.blocks():
                    yield block
                    self._bar.advance(task, len(block))
            finally:
                self._bar.remove_task(task)

        return read
