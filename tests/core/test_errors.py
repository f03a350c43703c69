"""Messages stay short however many classes they concern."""

from __future__ import annotations

from energyalign.core.errors import some_of


def test_up_to_eight_names_are_all_shown() -> None:
    assert some_of(["cat", "dog"]) == "cat, dog"
    assert some_of(range(8)) == "0, 1, 2, 3, 4, 5, 6, 7"


def test_more_names_are_counted_and_not_listed() -> None:
    assert some_of(range(9)) == "0, 1, 2, 3, 4, 5, 6, 7 and 1 more"
    assert some_of(range(8142)) == "0, 1, 2, 3, 4, 5, 6, 7 and 8,134 more"
