"""Thrift's compact protocol, in which Parquet files describe themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

Structure: TypeAlias = dict[int, Any]
"""From the number of a field to its value."""

_TRUE, _FALSE = 1, 2
_MOST_BITS = 63


class Compact:
    """A reader of bytes, from `position` on; a `ValueError` if they are no such thing."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def structure(self) -> Structure:
        """The structure that begins here."""
        return {field: self._value(kind) for field, kind in self.fields()}

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and kind of the fields of the structure that begins here; whoever asks must read or skip each."""
        field = 0
        while start := self._byte():
            field = field + (start >> 4) if start >> 4 else self._number()
            yield field, start & 15

    def elements(self) -> Iterator[int]:
        """The kind of the elements of the list that begins here, once for each."""
        start = self._byte()
        for _ in range(self._varint() if start >> 4 == 15 else start >> 4):
            yield start & 15

    def skip(self, kind: int) -> None:
        """Read over a value."""
        self._value(kind)

    def _value(self, kind: int) -> Any:
        value: Any
        match kind:
            case 1 | 2:  # of a field, true and false have nothing after them
                value = kind == _TRUE
            case 3:
                value = self._byte()
            case 4 | 5 | 6:
                value = self._number()
            case 7:
                value = self._take(8)
            case 8:
                value = self._take(self._varint())
            case 9 | 10:
                value = [self._byte() if one in (_TRUE, _FALSE) else self._value(one) for one in self.elements()]
            case 12:
                value = self.structure()
            case _:
                raise ValueError("it has a field of an unknown kind")
        return value

    def _number(self) -> int:
        """A whole number, whose last bit is its sign."""
        value = self._varint()
        return -(value >> 1) - 1 if value & 1 else value >> 1

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) > 127:
            value |= (byte & 127) << shift
            shift += 7
            if shift > _MOST_BITS:
                raise ValueError("it has a number of more than 64 bits")
        return value | byte << shift

    def _byte(self) -> int:
        return self._take(1)[0]

    def _take(self, n: int) -> bytes:
        taken = self._data[self.position : self.position + n]
        self.position += n
        if len(taken) < n:
            raise ValueError("it is cut off")
        return taken
