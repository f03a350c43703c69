"""The page's scripts alone, in a browser: each function compared with Python."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from energyalign import Clusters, Shifts
from energyalign.core._io.shifts_json import parse, seal
from energyalign.core.objectives import METRICS
from energyalign.report.page.document import asset
from energyalign.report.page.view import Correction, View, encode_logits


@pytest.fixture(scope="module")
def scripts(browser) -> Any:
    page = browser.new_page()
    for name in ("numbers.js", "decode.js", "model.js", "shifts_file.js"):
        page.add_script_tag(content=asset(name))
    yield page
    page.close()


def make_shifts(values: npt.ArrayLike, **more: Any) -> Shifts:
    n = len(np.asarray(values))
    return Shifts(values, np.geomspace(1e-6, 1e17, n), Clusters.per_class(n), np.full(n, 1 / n), "lse", **more)


def test_accuracies_are_rounded_as_in_the_tables(scripts) -> None:
    """Of 10,000 images, and of 8: many are ties, which toFixed would round up."""
    for n in (10_000, 8):
        shown = scripts.evaluate(f"Array.from({{ length: {n} + 1 }}, (_, k) => percent(k / {n}))")
        assert shown == [f"{100 * (k / n):.1f}" for k in range(n + 1)]
    assert scripts.evaluate("[percent(NaN), withSign(-0.25, 1), withSign(0.75, 1), withSign(1.5, 2)]") == [
        "–", f"{-0.25:.1f}", "+0.8", "+1.50",
    ]  # fmt: skip


def test_targets(scripts) -> None:
    def target(kind: str, counts: list[float] | None, own: list[float] | None = None) -> Any:
        view = {"classNames": ["a", "b", "c"], "counts": counts, "target": [0.2, 0.3, 0.5]}
        return scripts.evaluate("([view, kind, own]) => targetPrior(view, kind, own)", [view, kind, own])

    assert target("uniform", None) == pytest.approx([1 / 3] * 3)
    assert target("training", [6, 3, 1]) == pytest.approx([0.6, 0.3, 0.1])
    assert target("reversed", [3, 6, 1]) == pytest.approx([0.3, 0.1, 0.6])  # the rarest as often as the most frequent
    assert target("fitted", None) == pytest.approx([0.2, 0.3, 0.5])
    assert target("own", None, [1, 1, 2]) == pytest.approx([0.25, 0.25, 0.5])
    assert target("own", None, [1, 1]) is None
    assert target("training", None) is None
    assert target("reversed", [5, 5, 0]) is None  # a class that cannot be aimed at


def test_strength_nought_is_the_raw_model(scripts) -> None:
    script = """([correction, strength]) =>
        shiftsAt({ classNames: ["a", "b"] }, { correction, strength, target: [0.9, 0.1] })"""
    full = {"shifts": [3, -1], "strength": 1}
    assert [abs(x) for x in scripts.evaluate(script, [full, 0])] == [0, 0]
    expected = [3 + np.log(1.8), -1 + np.log(0.2)]
    assert scripts.evaluate(script, [full, 1]) == pytest.approx(expected)
    half = {"shifts": [3, -1], "strength": 0.5}
    assert scripts.evaluate(script, [half, 0.5]) == pytest.approx(expected)  # as fitted
    assert scripts.evaluate(script, [half, 1]) == pytest.approx(np.multiply(2, expected))
    assert scripts.evaluate(script, [half | {"strength": 0}, 0]) == pytest.approx(expected)  # nothing to scale by
    assert scripts.evaluate(script, [None, 1]) == [0, 0]  # the raw model, whatever is aimed at


@pytest.mark.parametrize("budget", [10**7, 60_000])
def test_predictions_and_scores(scripts, budget: int) -> None:
    """From all logits, and from the logits of a few classes per image: both agree at strengths 0 and 1."""
    random = np.random.default_rng(0)
    n_images, n_classes = 500, 80
    labels = random.integers(0, n_classes, n_images)
    logits = random.standard_normal((n_images, n_classes), dtype=np.float32)
    logits[np.arange(n_images), labels] += 2
    shifts = random.standard_normal(n_classes)
    even = np.arange(n_classes) % 2 == 0
    encoded = encode_logits([logits], labels, [shifts], n_classes, budget)
    assert (encoded.classes is None) == (budget > 60_000)
    names = [str(k) for k in range(n_classes)]
    groups = {"even": even, "none": np.zeros(n_classes, dtype=bool)}
    for in_steps in (False, True):
        corrections = [Correction("ea", make_shifts(shifts))]
        view = View("", lambda: [logits], labels, names, None, groups, in_steps, corrections)
        told = json.dumps(view.to_json(budget))
        script = """(text) => {
            const view = JSON.parse(text), even = view.classNames.map(() => 1 / view.classNames.length);
            return [0, 1].map((strength) => {
              const settings = { correction: view.corrections[0], strength, target: even };
              const found = predictions(view, shiftsAt(view, settings));
              return { found: [...found], ...scores(view, found, even) };
            });
        }"""
        for strength, shown in enumerate(scripts.evaluate(script, told)):
            predicted = (logits + np.float32(strength) * shifts.astype(np.float32)).argmax(axis=1)
            np.testing.assert_array_equal(shown["found"], predicted)
            right = predicted == labels
            per_class = np.array([right[labels == k].mean() for k in range(n_classes)])
            assert shown["balanced"] == pytest.approx(per_class.mean())
            assert shown["groups"][0] == pytest.approx(per_class[even].mean())
            assert np.isnan(shown["groups"][1])
            assert shown["onTarget"] == pytest.approx(per_class.mean())


@pytest.mark.parametrize("scoring", sorted(set(METRICS) - {"balanced_accuracy"}))
def test_scores_are_those_of_python(scripts, scoring: str) -> None:
    random = np.random.default_rng(1)
    n_classes = 2 if scoring == "f1" else 5
    labels = random.integers(0, min(n_classes, 4), 60)  # no sample of the last of five classes
    for predicted in (np.where(random.random(60) < 0.5, labels, random.integers(0, n_classes, 60)), np.zeros(60, int)):
        view = View(
            "", lambda: [np.zeros((60, n_classes), np.float32)], labels, list("abcde")[:n_classes], None, {}, False, [],
            scoring=scoring, aim="of this page",
        )  # fmt: skip
        told = view.to_json(10**6)
        assert told["score"] == {"metric": scoring, "name": "of this page"}
        script = """([text, found]) => {
            const view = JSON.parse(text);
            return scores(view, found, view.classNames.map(() => 1 / view.classNames.length)).own;
        }"""
        expected = METRICS[scoring].score(labels, predicted, np.ones(60), n_classes)
        assert scripts.evaluate(script, [json.dumps(told), predicted.tolist()]) == pytest.approx(expected)


def save(scripts: Any, shifts: Shifts, strength: float, target: npt.ArrayLike | None = None) -> Any:
    n = shifts.n_classes
    shares = np.full(n, 1 / n) if target is None else np.asarray(target)
    text = scripts.evaluate("(given) => scaledText(...given)", [shifts.to_json(), strength, shares.tolist()])
    return None if text is None else seal(text)  # the script's own seal needs a page from a file or localhost


@pytest.mark.parametrize("n", [2, 49, 300])  # 1/49 x 49 is not 1 in floating point
@pytest.mark.parametrize("strength", [0, 0.01, 0.37, 0.5, 1])
def test_saved_shifts_are_those_of_python_to_the_byte(scripts, n: int, strength: float) -> None:
    values = np.random.default_rng(n).normal(size=n) * np.geomspace(1e-9, 1e17, n)
    names = [f'class {k}: "shift": 1.0, "target": 1.0, "standard_error": 1.0, \u2028 é' for k in range(n)]
    for scoring in ("balanced_accuracy", "f1_macro"):
        shifts = make_shifts(
            values, strength=0.7, class_names=tuple(names), concerns=('  "strength": 1.0,\n',), scoring=scoring,
            energies=np.full(n, -np.inf), counts=np.arange(n),
        )  # fmt: skip
        assert save(scripts, shifts, strength) == shifts.scaled(strength).to_json()


def test_unknown_errors_stay_unknown(scripts) -> None:
    shifts = replace(make_shifts([0.5, 1.0]), standard_errors=np.array([0.0, np.inf]))
    assert save(scripts, shifts, 0.5) == shifts.scaled(0.5).to_json()


def test_saved_shifts_have_the_target_that_was_chosen(scripts) -> None:
    fitted, chosen = np.array([0.7, 0.2, 0.1]), np.array([0.1, 0.3, 0.6])
    shifts = make_shifts([0.5, -1.0, 3.0]).with_target(fitted)
    for target in (fitted, chosen):
        found, expected = parse(save(scripts, shifts, 0.3, target)), shifts.with_target(target).scaled(0.3)
        np.testing.assert_allclose(found.values, expected.values, rtol=1e-14)
        np.testing.assert_allclose(found.target_prior, expected.target_prior, rtol=1e-14)


def test_shifts_for_another_score_are_saved_as_they_are_or_not_at_all(scripts) -> None:
    shifts = make_shifts([0.5, -1.0], scoring="f1_macro")
    shifts = replace(shifts, target_prior=np.array([0.75, 0.25]))  # it weighted the samples
    assert save(scripts, shifts, 0.5) == shifts.scaled(0.5).to_json()
    assert save(scripts, shifts, 0.5, [0.75, 0.25]) is None


def test_confusions_are_binned_in_the_order_that_is_asked_for(scripts) -> None:
    labels, predicted = np.array([0, 0, 1, 2, 3, 4]), [1, 0, 1, 4, 3, 0]
    view = View("", lambda: [np.zeros((6, 5), np.float32)], labels, list("abcde"), None, {}, False, [])
    script = """([text, found, order]) => {
        const { counts, bins, size } = confusion(JSON.parse(text), found, order, 3);
        return [[...counts], bins, size];
    }"""
    counts, bins, size = scripts.evaluate(script, [json.dumps(view.to_json(10**6)), predicted, [4, 3, 2, 1, 0]])
    assert (bins, size) == (3, 2)  # {4, 3}, {2, 1}, {0}
    assert counts == [1, 0, 1, 1, 1, 0, 0, 1, 1]
