"""Messages stay short for any number of classes."""

from __future__ import annotations

import pytest

from energyalign.core.errors import (
    EnergyAlignError,
    UntrustedEstimateWarning,
    classes_of,
    count_of,
    some_of,
    warn_untrusted,
)


@pytest.mark.promise("No name can control the terminal or cause a traceback", "hostile names")
def test_python_prints_no_escapes_of_a_name() -> None:
    assert str(EnergyAlignError("no file cat\x1b]52;c;ZXZpbA==\x07")) == "no file cat\ufffd]52;c;ZXZpbA==\ufffd"
    with pytest.warns(UntrustedEstimateWarning, match="^class \ufffd.2J$"):
        warn_untrusted("class \x1b[2J")


def test_up_to_eight_names_are_all_shown() -> None:
    assert some_of(["cat", "dog"]) == "cat, dog"
    assert some_of(range(8)) == "0, 1, 2, 3, 4, 5, 6, 7"


def test_more_names_are_counted_and_not_listed() -> None:
    assert some_of(range(9)) == "0, 1, 2, 3, 4, 5, 6, 7 and 1 more"
    assert some_of(range(8142)) == "0, 1, 2, 3, 4, 5, 6, 7 and 8,134 more"


def test_one_is_singular() -> None:
    assert [classes_of([9]), classes_of(["cat", "dog"])] == ["class 9", "classes cat, dog"]
    assert [count_of(1, "epoch"), count_of(2, "epoch"), count_of(0, "class"), count_of(1000, "training image")] == [
        "1 epoch", "2 epochs", "0 classes", "1,000 training images",
    ]  # fmt: skip
