"""Some pieces of work at once, their results one after another."""

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
    """The results in the order of the items, with at most so many handed out and not yet collected.

    Whatever is still out when nobody wants more results, or when one is an error, is cancelled.
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
