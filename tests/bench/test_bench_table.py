"""Tests of lines and tables of the benchmark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from bench.__main__ import SUBJECTS, main
from bench.curves import draw_curves
from bench.line import Line, at_least, at_most
from bench.measure import Work, alternate
from bench.table import Table, amount, amounts, with_table


def line(ratio: float, *, faster: bool = True, spread: float = 0.01, **changes: object) -> Line:
    goal = at_least(2.0) if faster else at_most(2.0)
    low, high = ratio - spread, ratio + spread
    made = Line("name", "workload", "against", ratio, low, high, (low, high), 7, 1.0, 2.0, goal)
    return replace(made, **changes)


def test_ratios_say_how_many_times_faster_or_longer() -> None:
    ours, theirs = [1.0, 2.0, 1.0], [4.0, 6.0, 5.0]
    faster = Line.of("n", "w", "a", at_least(4.0), ours=ours, theirs=theirs)
    assert (faster.ratio, faster.passed, faster.verdict) == (4.0, True, "pass")
    longer = Line.of("n", "w", "a", at_most(0.1), ours=ours, theirs=theirs)
    assert (longer.ratio, longer.passed, longer.verdict) == (0.25, False, "FAIL")
    unclear = Line.of("n", "w", "a", at_most(0.24), ours=ours, theirs=theirs)
    assert (unclear.passed, unclear.verdict) == (False, "within noise")
    assert Line.single("n", "w", "a", 1.5, 1.0, unit="").verdict == "FAIL"
    assert replace(longer, limit="Heading", floor=0.3).verdict == "limit: Heading"
    assert replace(longer, limit="Heading", floor=0.24).verdict == "FAIL"
    assert replace(unclear, limit="Heading", floor=0.3).verdict == "limit: Heading"


def test_limits_are_explained_under_the_headings_that_they_name() -> None:
    root = Path(__file__).parents[2]
    headings = re.findall(r"^#+ (.*)$", (root / "docs" / "performance.md").read_text(), re.MULTILINE)
    named = [name for path in root.glob("bench/lines/*.py") for name in re.findall(r'limit="(.+?)"', path.read_text())]
    assert named
    assert set(named) <= set(headings)


def test_a_single_figure_is_held_against_its_bound() -> None:
    assert Line.single("n", "w", "a", 150.0, 200.0, unit="bytes").passed
    assert not Line.single("n", "w", "a", 250.0, 200.0, unit="bytes").passed


def growth(*slopes: float, unit: str = "s") -> Line:
    curve = [(1_000, 0.5), (2_000, 1.0), (4_000, 2.5)]
    return Line.exponent("growth of it", "1,000, 2,000, 4,000 cats, 9 dogs", 1.1, curve=curve, slopes=slopes, unit=unit)


def test_exponents_are_medians_of_rounds() -> None:
    assert (growth(0.9, 1.0, 1.3).ratio, growth(0.9, 1.0, 1.3).passed) == (1.0, True)
    assert not growth(1.5, unit="bytes").passed
    assert amounts(growth(1.0)) == ("500 ms, 1 s, 2.5 s", "")
    assert amounts(line(3.0)) == ("1 s", "2 s")


def test_growth_is_drawn_beside_the_smallest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr("bench.curves.save_figure", lambda figure, _path: figures.append(figure))
    draw_curves([growth(1.0), growth(1.0, unit="bytes"), replace(growth(1.0), name="growth of other")], tmp_path)
    first, second = figures[0].axes
    assert (first.get_title(), second.get_title()) == ("it", "other")
    _, time, memory = first.get_lines()
    assert (list(time.get_xdata()), list(time.get_ydata())) == ([1, 2, 4], [1, 2, 5])
    assert (time.get_linestyle(), memory.get_linestyle()) == ("-", ":")
    assert [text.get_text() for text in first.get_legend().get_texts()] == ["1,000 to 4,000 cats,\n9 dogs"]


def test_every_other_round_goes_backwards_after_one_that_does_not_count() -> None:
    order: list[str] = []
    works = {name: Work(lambda name=name: order.append(name), lambda: order.append("ready")) for name in "ab"}
    seconds = alternate(works, rounds=2)
    assert [name for name in order if name != "ready"] == ["a", "b", "a", "b", "b", "a"]
    assert order[::2] == ["ready"] * 6
    assert {name: len(taken) for name, taken in seconds.items()} == {"a": 2, "b": 2}


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    table = Table((line(3.0), line(1.5, faster=False, name="other"), growth(1.0)), command="make bench", minutes=2.0)
    table.write(tmp_path / "table.json")
    assert Table.read(tmp_path / "table.json") == table
    assert "| name | workload | against | 3× | 2.99 to 3.01 | 1 s | 2 s | ≥ 2× | pass |" in table.markdown()


def test_a_page_gets_another_table_and_keeps_the_rest() -> None:
    page = "a\n<!-- t -->\nold\n<!-- end of t -->\nb\n"
    assert with_table(page, "t", "new\n") == "a\n<!-- t -->\n\nnew\n\n<!-- end of t -->\nb\n"
    shown = (Path(__file__).parents[2] / "docs" / "performance.md").read_text()
    for name in ("table", "table-full"):
        assert "new" in with_table(shown, name, "new")


# From the table of the sign test: the outermost of 7 values, the second from each end of 9, the sixth of 20, the
# eighteenth of 50.
@pytest.mark.parametrize(("n", "from_each_end"), [(7, 1), (9, 2), (20, 6), (50, 18)])
def test_more_rounds_leave_less_to_noise(n: int, from_each_end: int) -> None:
    ratios = [float(k) for k in range(1, n + 1)]
    found = Line.of("n", "w", "a", at_most(1.0), ours=ratios, theirs=[1.0] * n)
    assert found.interval == (from_each_end, n + 1 - from_each_end)


@pytest.mark.parametrize("recorded", ["", "{}", '{"lines": [{}]}'])
def test_nothing_is_lost_for_a_recorded_table_that_cannot_be_read(
    recorded: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "baseline.json").write_text(recorded)
    (tmp_path / "page.md").write_text("<!-- table -->\n<!-- end of table -->\n")
    monkeypatch.setattr("bench.__main__._HERE", tmp_path)
    monkeypatch.setattr("bench.__main__._PAGE", tmp_path / "page.md")
    monkeypatch.setattr("bench.__main__._measure", lambda subject: iter([line(3.0, name=subject)]))
    monkeypatch.setattr("sys.argv", ["bench", "--record", "--out", str(tmp_path / "t.json")])
    assert main() == 0
    assert "Not compared" in capsys.readouterr().out
    assert {each.name for each in Table.read(tmp_path / "baseline.json").lines} == set(SUBJECTS)
    assert "| jenks | workload |" in (tmp_path / "page.md").read_text()


def test_lines_from_before_a_stop_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(subject: str) -> Iterator[Line]:
        yield line(3.0, name=subject)
        if subject == "marginal":
            raise KeyboardInterrupt

    monkeypatch.setattr("bench.__main__._measure", measure)
    monkeypatch.setattr("bench.__main__._HERE", tmp_path)  # where no table is recorded
    arguments = ["--only", "jenks", "marginal", "resume", "--out", str(tmp_path / "t.json")]
    monkeypatch.setattr("sys.argv", ["bench", *arguments])
    assert main() == 130
    assert [each.name for each in Table.read(tmp_path / "t.json").lines] == ["jenks", "marginal"]
    assert "Stopped" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--only", "jenks", "--record"], "leave out --only"),
        (["--only", "jenks", "--out", "no/such/folder.json"], "must be a file in an existing folder"),
    ],
)
def test_what_cannot_be_kept_is_not_measured(
    arguments: list[str], complaint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["bench", *arguments])
    monkeypatch.setattr("bench.__main__._measure", lambda _: pytest.fail("it was measured"))
    with pytest.raises(SystemExit):
        main()
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("before", "now", "is_slower"),
    [
        (line(3.0), line(2.5), True),
        (line(3.0), line(2.8), False),
        (line(3.0, spread=0.6), line(2.5), False),
        (line(3.0), line(4.0), False),
        (line(1.0, faster=False), line(1.2, faster=False), True),
        (line(1.0, faster=False), line(0.8, faster=False), False),
        (line(3.0), line(2.0, name="new"), False),
    ],
)
def test_what_lost_more_than_a_tenth_is_named(before: Line, now: Line, is_slower: bool) -> None:
    assert bool(Table((now,)).slower_than(Table((before,)))) is is_slower


def test_tables_of_other_machines_are_not_compared() -> None:
    assert Table((line(2.0),)).slower_than(Table((line(3.0),), machine={"processor": "another"})) == []


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(0.0123, "s", "12.3 ms"), (12.34, "s", "12.3 s"), (2e8, "bytes", "200 MB"), (1.1, "", "1.1")],
)
def test_amounts(value: float, unit: str, text: str) -> None:
    assert amount(value, unit) == text
