"""Process several items at once and yield the results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
Ticket = TypeVar("Ticket")
Result = TypeVar("Result")


def in_order(
    items: Iterable[Item],
    at_once: int,
    *,
    submit: Callable[[Item], Ticket],
    collect: Callable[[Ticket], Result],
    cancel: Callable[[Ticket], object],
) -> Iterator[Result]:
    """Yield the results in the order of the items, with at most `at_once` pending.

    Cancel pending items if the caller stops or an item fails.
    """
    pending: deque[Ticket] = deque()
    try:
        for item in items:
            if len(pending) == at_once:
                yield collect(pending.popleft())
            pending.append(submit(item))
        while pending:
            yield collect(pending.popleft())
    finally:
        for ticket in pending:
            cancel(ticket)
