"""Work on several items at once and yield the results in order."""

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
    """Yield the results in the order of the items, with at most `at_once` submitted and not yet collected.

    What is still submitted when the caller stops or a result is an error is cancelled.
    """
    out: deque[Ticket] = deque()
    try:
        for item in items:
            if len(out) == at_once:
                yield collect(out.popleft())
            out.append(submit(item))
        while out:
            yield collect(out.popleft())
    finally:
        for ticket in out:
            cancel(ticket)
