"""The page in a real browser, opened from disk."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from browser import Watched
from sklearn.metrics import balanced_accuracy_score, f1_score

from energyalign import Shifts
from energyalign.cli.main import main
from energyalign.core.metrics import confusion_matrix
from energyalign.experiments.data.manifest import Manifest
from energyalign.experiments.engine.stored import StoredRun, find_runs
from energyalign.report.page import write
from energyalign.report.page.document import Section, document
from energyalign.report.page.story import Pictures
from energyalign.report.page.write import write_page

HOSTILE = "<script>alert(1)</script>"
LIGHT = {"viewport": {"width": 1000, "height": 800}}


def percent(share: float | None) -> str:
    """Format a percentage as tables do."""
    return "–" if share is None else f"{100 * share:.1f}"


@pytest.fixture(scope="module")
def hostile_run(long_tail: Path, tmp_path_factory: pytest.TempPathFactory) -> StoredRun:
    """Make a run on digits, one of them with a name that would be harmful markup."""
    folder = tmp_path_factory.mktemp("hostile") / "seed-0"
    shutil.copytree(long_tail, folder)
    manifest = Manifest.load(folder / "manifest.json")
    names = [f"digit {name}" for name in manifest.class_names]
    names[3] = HOSTILE
    replace(manifest, class_names=tuple(names)).save(folder / "manifest.json")
    (run,) = find_runs([folder])
    return run


@pytest.fixture(scope="module")
def page(browser, hostile_run: StoredRun, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(path, [hostile_run], title=f"Digits {HOSTILE}")
    return Watched(browser, path.as_uri(), **LIGHT)


def test_nothing_goes_wrong_and_nothing_is_loaded(page: Watched) -> None:
    assert page.problems == []
    assert [url for url in page.requests if not url.startswith("data:")] == [page.page.url]


@pytest.mark.parametrize("corrector", ["ea", "ea-marginal", "logit-adjustment"])
@pytest.mark.parametrize("strength", [0, 1])
def test_both_ends_are_the_rows(page: Watched, hostile_run: StoredRun, corrector: str, strength: int) -> None:
    row = hostile_run.row_of(corrector if strength else "raw")
    assert row is not None
    page.choose("correction", value=corrector)
    page.slide(strength)
    (line,) = page.table("#compared")
    raw = hostile_run.row_of("raw")
    assert raw is not None
    expected = [raw.balanced, row.balanced, row.many, row.medium, row.few]
    assert line[1:6] == [percent(value) for value in expected]
    assert page.text("#balanced-shown") == f"{percent(row.balanced)} %"
    by_name = {cells[0]: cells[4] for cells in page.table("#classes")}
    assert by_name == dict(zip(hostile_run.class_names, map(percent, row.per_class), strict=True))
    assert page.text("#spoken").startswith(
        f"{corrector}, strength {strength}.00, target prior uniform: balanced accuracy {percent(row.balanced)} %, "
    )


def test_between_the_ends_and_for_another_target(page: Watched, hostile_run: StoredRun) -> None:
    """Half the shifts of energy aligning, with the training distribution as target, computed independently."""
    row = hostile_run.row_of("ea")
    assert row is not None
    outputs, counts = hostile_run.outputs(), hostile_run.counts()
    page.choose("correction", value="ea")
    page.choose("target", value="training")
    page.slide(0.5)
    prior = counts / counts.sum()
    shifts = 0.5 * (np.array(row.shifts) + np.log(prior * len(prior)))
    predicted = (outputs.logits + shifts.astype(np.float32)).argmax(axis=1)
    matrix = confusion_matrix(outputs.labels, predicted, len(prior))
    per_class = matrix.diagonal() / matrix.sum(axis=1)
    (line,) = page.table("#compared")
    assert line[2] == percent(float(np.mean(predicted == outputs.labels)))
    assert line[-1] == percent(float(prior @ per_class))
    page.choose("target", value="reversed")
    turned = np.sort(prior)[np.argsort(np.argsort(-prior))]
    shifts = 0.5 * (np.array(row.shifts) + np.log(turned * len(prior)))
    predicted = (outputs.logits + shifts.astype(np.float32)).argmax(axis=1)
    assert page.table("#compared")[0][2] == percent(float(np.mean(predicted == outputs.labels)))
    page.choose("target", value="uniform")


def saved_by(page: Watched, folder: Path) -> Path:
    with page.page.expect_download() as download:
        page.page.locator("#save").click()
    assert download.value.suggested_filename == "shifts.json"
    download.value.save_as(folder / "shifts.json")
    return folder / "shifts.json"


def test_the_shifts_of_a_run_are_saved(page: Watched, hostile_run: StoredRun, tmp_path: Path) -> None:
    """`energyalign apply` with the saved file gives the predictions that the page shows."""
    row = hostile_run.row_of("ea")
    assert row is not None
    assert row.shifts is not None
    page.choose("correction", value="ea")
    page.slide(0.37)
    path = saved_by(page, tmp_path)
    shifts = Shifts.load(path)
    np.testing.assert_array_equal(shifts.values, 0.37 * np.array(row.shifts))
    np.testing.assert_array_equal(shifts.standard_errors, 0.37 * np.array(row.standard_errors))
    assert (shifts.strength, shifts.estimator, shifts.clusters.name) == (0.37, row.estimator, row.clusters)
    assert shifts.clusters.n_clusters == row.n_clusters
    assert shifts.values[np.array(shifts.clusters.assignment) == shifts.clusters.anchor].max() == 0
    assert shifts.class_names == tuple(hostile_run.class_names)
    outputs = hostile_run.outputs()
    np.save(tmp_path / "logits.npy", outputs.logits)
    files = [str(tmp_path / name) for name in ("logits.npy", "out.npy")]
    assert main(["apply", files[0], "--shifts", str(path), "--out", files[1], "--quiet"]) == 0
    right = np.load(files[1]).argmax(axis=1) == outputs.labels
    assert page.text("#balanced-shown") == f"{percent(float(right.mean()))} %"
    page.choose("correction", value="none")
    assert page.page.locator("#save").is_disabled()
    page.choose("correction", value="ea")
    assert page.problems == []


def test_a_target_of_ones_own(page: Watched) -> None:
    page.choose("target", value="own")
    page.slide(1)
    before = page.table("#compared")
    own = page.page.locator("#own")
    assert own.input_value() == " ".join(["1"] * 10)
    own.fill("")
    assert own.input_value() == ""  # whoever empties it wants to type
    own.fill("1 2 3")
    own.blur()
    assert page.text("#own-problem") == ("Expected 10 numbers, one per class, got 3.")
    assert page.table("#compared") == before
    own.fill("1 1 1 1 1 1 1 1 1 0")
    own.blur()
    assert page.text("#own-problem") == "Every number must be above zero."
    own.fill("1e30, 1, 1, 1, 1, 1, 1, 1, 1, 1")
    own.blur()
    page.settle()
    assert page.text("#own-problem") == ""
    assert page.table("#classes")[0][4] == "100.0"  # everything is predicted as the first class
    assert {cells[4] for cells in page.table("#classes")[1:]} == {"0.0"}
    page.choose("target", value="uniform")


def test_the_table_is_sorted_and_searched(page: Watched, hostile_run: StoredRun) -> None:
    page.slide(0)
    raw = hostile_run.row_of("raw")
    assert raw is not None
    accuracy = dict(zip(hostile_run.class_names, raw.per_class, strict=True))
    head = page.page.get_by_role("columnheader", name="raw, %")
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    shown = [accuracy[cells[0]] for cells in page.table("#classes")]
    assert shown == sorted(accuracy.values(), reverse=True)
    head.get_by_role("button").press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert [accuracy[cells[0]] for cells in page.table("#classes")] == sorted(accuracy.values())
    page.page.locator("#search").fill("SCRIPT")
    assert [cells[0] for cells in page.table("#classes")] == [HOSTILE]
    assert page.text("#found") == "1 of 10 classes"
    page.page.locator("#search").fill("")
    assert len(page.table("#classes")) == 10


def test_the_hostile_name_is_text(page: Watched) -> None:
    assert HOSTILE in [cells[0] for cells in page.table("#classes")]
    assert page.text("h1") == f"Digits {HOSTILE}"
    assert page.page.locator("script").count() == 3  # data, charts, program
    assert page.problems == []


def test_the_keyboard_alone_moves_it(page: Watched) -> None:
    page.slide(1)
    page.page.locator("#strength").focus()
    page.page.keyboard.press("Home")
    page.settle()
    assert page.text("#strength-shown") == "0.00"
    page.page.keyboard.press("ArrowRight")
    page.settle()
    assert page.page.locator("#strength").get_attribute("aria-valuetext") == "0.01"


def test_everything_has_a_name_for_those_who_listen(page: Watched) -> None:
    for control in page.page.locator("select:visible, input:visible, textarea:visible").all():
        assert control.evaluate("control => control.labels.length") == 1
    for chart in page.page.locator(".chart").all():
        assert len(chart.get_attribute("aria-label") or "") > 30
    assert page.page.locator("img:not([alt])").count() == 0


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave figures out: they take seconds, and are static."""
    monkeypatch.setattr(write, "draw_pictures", lambda _: Pictures([], []))


def test_steps_and_several_runs_side_by_side(
    browser, no_figures, long_tail: Path, in_steps: Path, tmp_path: Path
) -> None:
    runs = find_runs([in_steps, long_tail])
    write_page(tmp_path / "report.html", runs)
    page = Watched(browser, (tmp_path / "report.html").as_uri(), **LIGHT)
    assert page.problems == []
    page.slide(1)
    steps, tail = page.table("#compared")
    last, at_tail = runs[0].row_of("ea"), runs[1].row_of("ea")
    assert last is not None
    assert at_tail is not None
    assert steps[0].endswith("seed 0, after step 2")
    # Columns: run, raw, corrected, old, new, many, medium, few, under the target prior.
    assert steps[2:8] == [percent(last.accuracy(name)) for name in ("balanced", "old", "new")] + ["–"] * 3
    assert tail[2:8] == [
        percent(at_tail.balanced),
        "–",
        "–",
        *(percent(at_tail.accuracy(n)) for n in ("many", "medium", "few")),
    ]
    page.choose("run", value="1")
    assert page.table("#compared") == [steps, tail]  # the other run stays at its last step
    page.choose("run", value="0")
    page.choose("step", label="after step 1")
    first = runs[0].row_of("raw", 1)
    assert first is not None
    assert page.table("#compared")[0][1] == percent(first.balanced)
    page.choose("step", label="after step 2")
    page.choose("run", value="1")
    page.choose("correction", value="ea-marginal")
    assert page.table("#compared")[0][2] == "–"  # the other run has no row of it


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone(browser, no_figures, hostile_run: StoredRun, tmp_path: Path, scheme) -> None:
    write_page(tmp_path / "report.html", [hostile_run])
    url = (tmp_path / "report.html").as_uri()
    page = Watched(browser, url, viewport={"width": 360, "height": 700}, color_scheme=scheme)
    assert page.page.evaluate("document.documentElement.scrollWidth") == 360
    paper, ink = (
        page.page.evaluate(f"getComputedStyle(document.body).{name}.match(/\\d+/g).reduce((sum, x) => sum + +x, 0)")
        for name in ("backgroundColor", "color")
    )
    assert (paper < ink) == (scheme == "dark")


def test_names_of_correctors_are_not_broken_within_a_word_on_a_phone(browser, tmp_path: Path) -> None:
    cells = "<td>93.2 ± 10.1</td>" * 5
    rows = "".join(f"<tr><th>{name}</th>{cells}</tr>" for name in ("logit-adjustment", "two<br>lines"))
    table = f'<div class="wide"><table><tbody>{rows}</tbody></table></div>'
    (tmp_path / "page.html").write_text(document("t", [], [], [Section("t", table)]))
    page = browser.new_context(viewport={"width": 400, "height": 700}).new_page()
    page.goto((tmp_path / "page.html").as_uri())
    name, two_lines = (box.bounding_box()["height"] for box in page.locator("tbody th").all())
    assert name <= two_lines


def test_a_step_without_the_correction_does_not_forget_it(browser, no_figures, in_steps: Path, tmp_path: Path) -> None:
    """In the first step no classes are old, and there are no shifts."""
    write_page(tmp_path / "report.html", find_runs([in_steps]))
    page = Watched(browser, (tmp_path / "report.html").as_uri(), **LIGHT)
    page.choose("correction", value="logit-adjustment")
    before = page.table("#compared")
    page.choose("step", label="after step 1")
    assert page.page.locator("#correction").input_value() == "none"
    page.choose("step", label="after step 2")
    assert page.page.locator("#correction").input_value() == "logit-adjustment"
    assert page.table("#compared") == before


def test_choices_stay_on_their_page(
    browser, no_figures, hostile_run: StoredRun, in_steps: Path, tmp_path: Path
) -> None:
    write_page(tmp_path / "first.html", [hostile_run])
    write_page(tmp_path / "second.html", find_runs([in_steps]))
    page = Watched(browser, (tmp_path / "first.html").as_uri(), **LIGHT)
    page.choose("target", value="training")
    page.slide(0.2)
    page.page.goto((tmp_path / "second.html").as_uri())
    page.settle()
    assert page.text("#strength-shown") == "1.00"
    assert page.page.locator("#target").input_value() == "uniform"


def test_a_fit_for_another_target_opens_as_it_was_fitted(browser, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 40)
    logits = random.standard_normal((120, 3)) + np.log([300, 30, 10])
    logits[np.arange(120), labels] += 2.5
    np.save(tmp_path / "logits.npy", logits)
    np.save(tmp_path / "labels.npy", labels)
    for name, numbers in (("counts", [300, 30, 10]), ("target", [0.7, 0.2, 0.1])):
        (tmp_path / f"{name}.json").write_text(json.dumps(numbers))
    arguments = [
        "fit", tmp_path / "logits.npy", "--labels", tmp_path / "labels.npy", "--counts", tmp_path / "counts.json",
        "--evidence", "held-out", "--target-prior", tmp_path / "target.json", "--out", tmp_path / "shifts.json",
        "--report", tmp_path / "page.html", "--quiet",
    ]  # fmt: skip
    assert main([str(word) for word in arguments]) == 0
    right = Shifts.load(tmp_path / "shifts.json").predict(logits) == labels
    page = Watched(browser, (tmp_path / "page.html").as_uri(), **LIGHT)
    assert page.problems == []
    assert page.page.locator("#target").input_value() == "fitted"
    assert page.text("#balanced-shown") == f"{percent(float(right.mean()))} %"
    fitted = Shifts.load(tmp_path / "shifts.json")
    assert saved_by(page, tmp_path).read_text() == fitted.scaled(1.0).to_json()
    page.choose("target", value="uniform")
    assert page.text("#balanced-shown") != f"{percent(float(right.mean()))} %"
    page.slide(0.25)
    expected = fitted.with_target(None).scaled(0.25 / fitted.strength)
    found = Shifts.load(saved_by(page, tmp_path))
    assert found.strength == pytest.approx(0.25)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-14, atol=1e-15)
    np.testing.assert_array_equal(found.predict(logits), expected.predict(logits))


def test_shifts_for_another_score_are_saved_for_no_other_target(browser, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    labels = np.repeat([0, 1], [90, 30])
    np.save(tmp_path / "scores.npy", 2.0 * labels - 2 + random.standard_normal(120))
    np.save(tmp_path / "labels.npy", labels)
    arguments = [
        "fit", tmp_path / "scores.npy", "--labels", tmp_path / "labels.npy", "--evidence", "held-out",
        "--scoring", "f1_macro", "--out", tmp_path / "shifts.json", "--report", tmp_path / "page.html", "--quiet",
    ]  # fmt: skip
    assert main([str(word) for word in arguments]) == 0
    fitted = Shifts.load(tmp_path / "shifts.json")
    page = Watched(browser, (tmp_path / "page.html").as_uri(), **LIGHT)
    balanced = balanced_accuracy_score(
        labels, fitted.predict(np.load(tmp_path / "scores.npy"))
    )  # one logit, two classes
    assert page.text("#balanced-shown") == f"{percent(balanced)} %"
    raw, aligned = (
        f"{percent(f1_score(labels, predicted, average='macro'))} %"
        for predicted in (np.load(tmp_path / "scores.npy") > 0, fitted.predict(np.load(tmp_path / "scores.npy")))
    )
    assert page.text(".headline") == f"{aligned} f1 macro, {percent(balanced)} % balanced accuracy on these samples"
    assert page.table("#compared")[0][1:3] == [raw, aligned]
    assert page.text("#curve-title") == "F1 macro and balanced accuracy by strength of the correction, %"
    assert 0 < fitted.strength != 1
    assert page.text("#strength-shown") == f"{fitted.strength:.2f}"  # not a step of the slider
    assert saved_by(page, tmp_path).read_text() == fitted.to_json()
    page.slide(0)
    assert page.text("#score-shown") == raw
    page.slide(0.5)
    assert saved_by(page, tmp_path).read_text() == fitted.scaled(0.5 / fitted.strength).to_json()
    page.choose("target", value="training")
    page.page.locator("#save").click()
    assert page.text("#save-problem").startswith("These shifts were not fitted for balanced accuracy")
    page.choose("target", value="uniform")
    assert page.text("#save-problem") == ""
    assert page.problems == []


def test_pixels_are_samples(browser, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    labels = random.choice(3, size=(12, 4, 5), p=[0.7, 0.2, 0.1])
    logits = random.standard_normal((12, 3, 4, 5)) + np.log([0.7, 0.2, 0.1])[:, None, None]
    logits += 2 * np.moveaxis(np.eye(3)[labels], -1, 1)
    labels[:, 0] = 255
    np.save(tmp_path / "maps.npy", logits)
    np.save(tmp_path / "masks.npy", labels)
    arguments = [
        "fit", tmp_path / "maps.npy", "--labels", tmp_path / "masks.npy", "--ignore-index", 255,
        "--evidence", "held-out", "--out", tmp_path / "shifts.json", "--report", tmp_path / "page.html", "--quiet",
    ]  # fmt: skip
    assert main([str(word) for word in arguments]) == 0
    known = labels != 255
    balanced = [
        balanced_accuracy_score(labels[known], predicted[known])
        for predicted in (logits.argmax(axis=1), Shifts.load(tmp_path / "shifts.json").predict(logits))
    ]
    page = Watched(browser, (tmp_path / "page.html").as_uri(), **LIGHT)
    assert page.problems == []
    (line,) = page.table("#compared")
    assert line[1] == percent(balanced[0])
    assert page.text("#balanced-shown") == f"{percent(balanced[1])} %"


def test_on_paper_it_is_light_and_says_what_is_shown(
    browser, no_figures, hostile_run: StoredRun, tmp_path: Path
) -> None:
    write_page(tmp_path / "report.html", [hostile_run])
    page = Watched(browser, (tmp_path / "report.html").as_uri(), color_scheme="dark", **LIGHT)
    page.slide(0.5)
    page.page.emulate_media(media="print", color_scheme="dark")
    page.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.settle()
    assert page.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.page.locator("#spoken").bounding_box()["width"] > 100
    assert "strength 0.50, target prior uniform" in page.text("#spoken")
    assert not page.page.locator("#strength").is_visible()
