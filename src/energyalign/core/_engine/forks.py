"""Locks and forks: a lock that another thread holds during a fork would stay locked in the child forever."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Generic, Protocol, Self, TypeVar, overload

Value = TypeVar("Value")


class _Lock(Protocol):
    def acquire(self) -> Any: ...

    def release(self) -> Any: ...


def hold_while_forking(lock: _Lock, in_child: Callable[[], None] = lambda: None) -> None:
    """Acquire the lock for every fork, and call `in_child` in the child before releasing it."""

    def begin_child() -> None:
        in_child()
        lock.release()

    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=begin_child)


class cached_property(Generic[Value]):
    """Like `functools.cached_property`, without the lock that it has in Python 3.11."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...

    @overload
    def __get__(self, owner: object, kind: type) -> Value: ...

    def __get__(self, owner: object | None, kind: type) -> Self | Value:
        if owner is None:
            return self
        value: Value = owner.__dict__.setdefault(self._name, self._compute(owner))
        return value
