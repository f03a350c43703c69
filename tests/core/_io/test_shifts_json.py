"""The file of shifts: exact, readable, and refused with a reason if invalid."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from energyalign.core._io.shifts_json import VERSION, dump, parse, seal
from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.selection.record import Candidate, Selection
from energyalign.core.shifts import Shifts

Make = Callable[..., Shifts]
ARRAYS = ("values", "target_prior", "standard_errors", "energies", "effective_samples", "counts")

finite = st.floats(allow_nan=False, allow_infinity=False)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@st.composite
def any_shifts(draw: st.DrawFn) -> Shifts:
    """Generate shifts with every kind of entry, from ordinary to extreme values."""
    n = draw(st.integers(2, 5))

    def column(elements: st.SearchStrategy[Any]) -> np.ndarray:
        return np.array(draw(st.lists(elements, min_size=n, max_size=n)))

    weights = column(st.floats(1e-6, 1))
    optional = st.booleans()
    candidate = st.builds(
        Candidate,
        names,
        names,
        strength=st.floats(0, 1.5),
        score=st.none() | st.floats(0, 1),
        largest_error=st.none() | st.floats(0, 1e300),
        problem=st.none() | names,
    )
    candidates = draw(st.lists(candidate, min_size=1, max_size=3))
    gain, error = draw(st.none() | finite), draw(st.none() | st.floats(0, 1e300))
    selection = Selection(tuple(candidates), draw(st.integers(0, len(candidates) - 1)), draw(names), gain, error)
    assignment = draw(st.permutations(range(n)))
    return Shifts(
        values=column(finite),
        standard_errors=column(st.floats(0, allow_nan=False)),
        clusters=Clusters(tuple(assignment), draw(st.integers(0, n - 1)), draw(names)),
        target_prior=weights / weights.sum(),
        estimator=draw(names),
        tau=draw(finite),
        strength=draw(finite),
        # Not all classes may be masked: there would be no energy.
        energies=np.append(column(finite | st.just(-np.inf))[1:], draw(finite)) if draw(optional) else None,
        effective_samples=np.append(column(st.floats(0, 1e300))[1:], 1.0) if draw(optional) else None,
        counts=column(st.floats(1, 1e15)) if draw(optional) else None,
        class_names=tuple(draw(st.lists(names, min_size=n, max_size=n))) if draw(optional) else None,
        evidence_kind=draw(names),
        n_samples=draw(st.floats(0, 1e300)),
        selection=selection if draw(optional) else None,
        concerns=tuple(draw(st.lists(names, max_size=2))),
    )


@given(any_shifts())
def test_everything_comes_back_exactly(shifts: Shifts) -> None:
    loaded = parse(dump(shifts))
    for name in ARRAYS:
        mine, theirs = getattr(shifts, name), getattr(loaded, name)
        assert (mine is None) == (theirs is None)
        if mine is not None:
            assert mine.tobytes() == theirs.tobytes(), name  # to the last bit, and -0.0 too
    for name in (
        "clusters", "estimator", "tau", "strength", "class_names", "evidence_kind", "n_samples", "selection",
        "concerns",
    ):  # fmt: skip
        assert getattr(shifts, name) == getattr(loaded, name)


def sealed(data: dict[str, Any]) -> str:
    """Return the text with a valid checksum."""
    return seal(json.dumps(data | {"sha256": ""}))


def example(make: Make) -> Shifts:
    return make(
        [0.1, -1e-300, 1 / 3],
        standard_errors=np.array([0.0, np.inf, 0.2]),
        clusters=Clusters((0, 1, 1), 1, "jenks-2"),
        energies=np.array([1.5, -np.inf, 0.3]),
        effective_samples=np.array([10.0, 0.0, 3.0]),
        counts=np.array([30.0, 20, 10]),
        class_names=('say "cat"', "犬\n\t\u2028", "é\\\r"),
        strength=0.7,
        n_samples=12.0,
        concerns=("thin",),
        selection=Selection(
            (Candidate("lse", "jenks-2", score=0.5), Candidate("none", "per-class")), 0, "better.", 0.02, 0.01
        ),
    )


class TestReadable:
    def test_one_class_a_line(self, plain_shifts: Make) -> None:
        lines = dump(example(plain_shifts)).split("\n")
        rows = [json.loads(line.rstrip(",")) for line in lines if line.startswith('    {"name"')]
        assert [row["name"] for row in rows] == ['say "cat"', "犬\n\t\u2028", "é\\\r"]
        assert rows[1]["shift"] == -1e-300
        assert list(rows[0]) == [
            "name", "cluster", "shift", "target", "standard_error", "energy", "effective_samples", "count",
        ]  # fmt: skip
        assert "犬" in dump(example(plain_shifts))  # as itself, not as an escape

    def test_it_is_plain_json_with_a_versioned_schema(self, plain_shifts: Make) -> None:
        def refuse(name: str) -> None:
            raise AssertionError(f"{name} is not JSON")

        data = json.loads(dump(example(plain_shifts)), parse_constant=refuse)
        assert (data["schema"], data["version"]) == ("energyalign.shifts", VERSION)
        assert (data["sharing"], data["anchor_cluster"]) == ("jenks-2", 1)
        assert data["evidence"] == {"kind": "training", "samples": 12.0, "probabilities": False}
        assert data["strength"] == 0.7
        assert data["selection"]["candidates"][0]["score"] == 0.5
        assert (data["selection"]["gain"], data["selection"]["gain_error"]) == (0.02, 0.01)

    def test_a_masked_class_has_no_energy_and_an_unknown_error_no_number(self, plain_shifts: Make) -> None:
        row = json.loads(dump(example(plain_shifts)))["classes"][1]
        assert row["energy"] is None
        assert row["standard_error"] is None
        loaded = parse(dump(example(plain_shifts)))
        assert loaded.energies.tolist() == [1.5, -np.inf, 0.3]
        assert loaded.standard_errors.tolist() == [0.0, np.inf, 0.2]

    def test_layout_and_entries_of_no_meaning_do_not_matter(self, plain_shifts: Make) -> None:
        data = json.loads(dump(example(plain_shifts)))
        data["note"] = "by hand"
        data["selection"]["candidates"][0]["new"] = 1
        for layout in ({"indent": 4}, {"separators": (",", ":")}):
            laid_out = json.dumps(json.loads(sealed(data)), **layout)
            assert parse(laid_out).values.tolist() == [0.1, -1e-300, 1 / 3]


Change = Callable[[dict[str, Any]], Any]

WRONG: dict[str, tuple[Change, str]] = {
    "newer version": (lambda d: d.update(version=VERSION + 1), "written by a newer energyalign .*: upgrade"),
    "version as text": (lambda d: d.update(version="1"), '"version" must be a positive integer'),
    "version true": (lambda d: d.update(version=True), '"version" must be a positive integer'),
    "version 0": (lambda d: d.update(version=0), '"version" must be a positive integer'),
    "no version": (lambda d: d.pop("version"), '"version" must be a positive integer'),
    "other schema": (lambda d: d.update(schema="other"), "not a file of shifts"),
    "no schema": (lambda d: d.pop("schema"), "not a file of shifts"),
    "no classes": (lambda d: d.pop("classes"), "missing or wrong entry .*classes"),
    "classes as object": (lambda d: d.update(classes={}), '"classes" must be a list'),
    "classes of numbers": (lambda d: d.update(classes=[1, 2]), '"classes" must be a list'),
    "one class": (lambda d: d["classes"].__delitem__(slice(1, None)), "at least 2 classes"),
    "no shift": (lambda d: d["classes"][1].pop("shift"), "missing or wrong entry .*shift"),
    "null shift": (lambda d: d["classes"][1].update(shift=None), '"shift" of class 1 is missing'),
    "text shift": (lambda d: d["classes"][1].update(shift="1.5"), "expected a number, got '1.5'"),
    "true shift": (lambda d: d["classes"][1].update(shift=True), "expected a number, got True"),
    "huge shift": (lambda d: d["classes"][1].update(shift=10**400), "missing or wrong entry"),
    "null target": (lambda d: d["classes"][2].update(target=None), '"target" of class 2 is missing'),
    "target of 0": (lambda d: d["classes"][2].update(target=0), "target_prior must be positive"),
    "cluster with a gap": (lambda d: d["classes"][2].update(cluster=5), "without gaps"),
    "half a cluster": (lambda d: d["classes"][2].update(cluster=0.5), "expected an integer, got 0.5"),
    "no anchor": (lambda d: d.pop("anchor_cluster"), "missing or wrong entry .*anchor_cluster"),
    "anchor elsewhere": (lambda d: d.update(anchor_cluster=7), "anchor must be in 0..1 .*, got 7"),
    "evidence as text": (lambda d: d.update(evidence="training"), "missing or wrong entry"),
    "concerns as text": (lambda d: d.update(concerns="thin"), "expected a list of strings, got 'thin'"),
    "no strength": (lambda d: d.pop("strength"), "missing or wrong entry .*strength"),
    "null strength": (lambda d: d.update(strength=None), "expected a number, got None"),
    "no gain": (lambda d: d["selection"].pop("gain"), "missing or wrong entry .*gain"),
    "text gain": (lambda d: d["selection"].update(gain="much"), "expected a number, got 'much'"),
    "true error of the gain": (lambda d: d["selection"].update(gain_error=True), "expected a number, got True"),
    "selection as list": (lambda d: d.update(selection=[1]), "missing or wrong entry"),
    "chosen elsewhere": (lambda d: d["selection"].update(chosen=2), "candidate must be in 0..1, got 2"),
    "candidate without name": (lambda d: d["selection"]["candidates"][0].pop("estimator"), "missing or wrong entry"),
}


class TestRefused:
    @pytest.mark.parametrize("case", WRONG)
    def test_what_is_wrong_is_said(self, plain_shifts: Make, case: str) -> None:
        change, message = WRONG[case]
        data = json.loads(dump(example(plain_shifts)))
        change(data)
        with pytest.raises(EnergyAlignError, match=message):
            parse(sealed(data))

    def test_a_changed_digit(self, plain_shifts: Make) -> None:
        shifts = example(plain_shifts)
        text = dump(shifts)
        digits = [place for place, letter in enumerate(text) if letter.isdigit()]
        refused = 0
        for place in digits:
            changed = text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :]
            if json.loads(changed) == json.loads(text):  # a digit beyond what a float has
                continue
            with pytest.raises(EnergyAlignError, match=r"checksum|newer energyalign|\"version\" must"):
                parse(changed)
            refused += 1
        assert refused > 0.9 * len(digits) > 100

    def test_no_checksum(self, plain_shifts: Make) -> None:
        data = json.loads(dump(example(plain_shifts)))
        del data["sha256"]
        with pytest.raises(EnergyAlignError, match=r"has no checksum .*: use the original, or fit again"):
            parse(json.dumps(data))

    @pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
    @pytest.mark.parametrize(
        "place", ['"shift": 0.1', '"energy": 1.5', '"tau": 1.0', '"strength": 0.7', '"samples": 12.0', '"gain": 0.02']
    )
    def test_what_is_no_number(self, plain_shifts: Make, place: str, number: str) -> None:
        text = dump(example(plain_shifts))
        assert text.count(place) == 1
        wrong = text.replace(place, f"{place.split(':', maxsplit=1)[0]}: {number}")
        with pytest.raises(EnergyAlignError, match=r"is not a (JSON )?number"):
            parse(wrong)

    @pytest.mark.parametrize("number", ["NaN", "Infinity"])
    def test_what_is_no_number_in_the_record(self, plain_shifts: Make, number: str) -> None:
        wrong = dump(example(plain_shifts)).replace('"score": 0.5', f'"score": {number}')
        with pytest.raises(EnergyAlignError, match=f"{number} is not a JSON number"):
            parse(wrong)

    def test_a_number_too_long_for_python(self, plain_shifts: Make) -> None:
        wrong = dump(example(plain_shifts)).replace('"shift": 0.1', '"shift": ' + "1" * 5000)
        with pytest.raises(EnergyAlignError, match="not valid JSON"):
            parse(wrong)

    def test_a_key_given_twice(self, plain_shifts: Make) -> None:
        wrong = dump(example(plain_shifts)).replace('"tau": 1.0', '"tau": 1.0, "tau": 2.0')
        with pytest.raises(EnergyAlignError, match="'tau' is given twice"):
            parse(wrong)

    def test_a_file_cut_off_anywhere(self, plain_shifts: Make) -> None:
        text = dump(example(plain_shifts)).rstrip()
        for length in range(len(text)):
            with pytest.raises(EnergyAlignError, match=r"not valid JSON"):
                parse(text[:length])

    @pytest.mark.parametrize("text", ["", "null", "[]", "1", '"energyalign.shifts"', "shift,1.0", "[" * 100_000])
    def test_other_texts(self, text: str) -> None:
        with pytest.raises(EnergyAlignError, match=r"not valid JSON|not a file of shifts"):
            parse(text)

    @given(
        data=st.data(),
        value=st.recursive(
            st.none() | st.booleans() | st.integers() | finite | st.text(max_size=3),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
            max_leaves=4,
        ),
    )
    def test_any_entry_may_be_anything_and_no_other_error_comes_of_it(
        self, plain_shifts: Make, data: st.DataObject, value: Any
    ) -> None:
        content = json.loads(dump(example(plain_shifts)))
        place: Any = content
        while True:  # walk down to a random entry
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = data.draw(st.sampled_from(keys))
            if not isinstance(place[key], (dict, list)) or not place[key] or data.draw(st.booleans()):
                break
            place = place[key]
        place[key] = value
        try:
            loaded = parse(sealed(content))
        except EnergyAlignError:
            return
        assert np.all(np.isfinite(loaded.apply(np.zeros((1, loaded.n_classes)))))
