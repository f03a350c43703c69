"""The data of a view for the page."""

from __future__ import annotations

import json

import numpy as np

from energyalign import Clusters, Shifts
from energyalign.report.page.view import Correction, View


def shifts_of(values, errors=(0.5, 0.5)) -> Shifts:
    return Shifts(values, errors, Clusters.per_class(2), np.full(2, 0.5), "lse")


def view(**more) -> View:
    return View(
        name="", blocks=lambda: [np.zeros((4, 2), dtype=np.float32)], labels=np.array([0, 1, 0, 1]),
        class_names=["a", "b"], counts=None, groups={}, in_steps=False,
        **({"corrections": []} | more),
    )  # fmt: skip


def test_shifts_keep_every_bit_of_what_is_added() -> None:
    shifts = np.array([0.1, -2.0 / 3.0])
    full = shifts_of(shifts, [0.123456, np.inf])
    (told,) = view(corrections=[Correction("ea", full)]).to_json(1000)["corrections"]
    np.testing.assert_array_equal(np.float32(told["shifts"]), shifts.astype(np.float32))
    assert told["errors"] == [0.1235, None]  # as it is shown; JSON has no infinity
    assert told["effective"] is None
    assert told["file"] == full.to_json()
    assert told["strength"] == 1.0


def test_the_page_adds_the_target_by_itself() -> None:
    aimed = shifts_of([0.5, -1.0]).with_target([0.9, 0.1])
    np.testing.assert_allclose(Correction("ea", aimed).shifts, [0.5, -1.0], atol=1e-15)


def test_shifts_that_make_up_for_a_masked_class_are_not_offered() -> None:
    corrections = [Correction("tame", shifts_of([0.0, 1.0])), Correction("wild", shifts_of([0.0, 1e9]))]
    made = view(corrections=corrections).to_json(1000)
    assert [correction["name"] for correction in made["corrections"]] == ["tame"]
    json.dumps(made, allow_nan=False)


def test_a_score_that_the_page_cannot_compute_is_named() -> None:
    assert view().to_json(1000)["score"] is None
    assert view().to_json(1000)["note"] == ""
    costly = view(scoring="cost", aim="cost").to_json(1000)
    assert costly["score"] is None
    assert (
        costly["note"] == "The shifts were fitted for cost, which this page cannot compute: it shows balanced accuracy."
    )


def test_the_target_of_a_fit() -> None:
    assert view().to_json(1000)["target"] is None
    assert view(target=np.array([0.25, 0.75])).to_json(1000)["target"] == [0.25, 0.75]
