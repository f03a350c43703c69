"""What a view tells the page."""

from __future__ import annotations

import json

import numpy as np

from energyalign.report.page.view import Correction, View


def view(**more) -> View:
    return View(
        name="", blocks=lambda: [np.zeros((4, 2), dtype=np.float32)], labels=np.array([0, 1, 0, 1]),
        class_names=["a", "b"], counts=None, groups={}, is_pooled=False,
        **({"corrections": []} | more),
    )  # fmt: skip


def test_shifts_keep_every_bit_of_what_is_added() -> None:
    shifts = np.array([0.1, -2.0 / 3.0])
    (told,) = view(corrections=[Correction("ea", shifts, np.array([0.123456, np.nan]))]).to_json(1000)["corrections"]
    np.testing.assert_array_equal(np.float32(told["shifts"]), shifts.astype(np.float32))
    assert told["errors"] == [0.1235, None]  # as it is shown; JSON has no NaN
    assert told["effective"] is None


def test_shifts_that_make_up_for_a_masked_class_are_not_offered() -> None:
    wild = [np.array([0.0, 1e9]), np.array([0.0, np.inf]), np.array([np.nan, 0.0])]
    made = view(corrections=[Correction(str(k), shifts) for k, shifts in enumerate([np.zeros(2), *wild])]).to_json(1000)
    assert [correction["name"] for correction in made["corrections"]] == ["0"]
    json.dumps(made, allow_nan=False)


def test_the_target_of_a_fit() -> None:
    assert view().to_json(1000)["target"] is None
    assert view(target=np.array([0.25, 0.75])).to_json(1000)["target"] == [0.25, 0.75]
