"""`energyalign figure` as users run it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_up_run import made_up_run

from energyalign.report.figures import FIGURES


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder with a measured run and an unfinished one, below the working directory."""
    made_up_run(tmp_path / "runs" / "seed-0", ["a", "b", "c"])
    made_up_run(tmp_path / "runs" / "seed-1", ["a", "b", "c"], seed=1)
    (tmp_path / "runs" / "seed-1" / "rows.jsonl").unlink()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def test_one_figure(runs: Path, run: Any) -> None:
    code, out, err = run("figure", "groups", "runs")
    assert (code, out) == (0, "Wrote groups.png.\n")
    assert err == "warning: runs/seed-1 has no rows yet and is skipped.\n"
    assert Path("groups.png").read_bytes().startswith(b"\x89PNG")
    assert run("figure", "groups", "runs", "--out", "g.svg")[1] == "Wrote g.svg.\n"
    assert "<svg" in Path("g.svg").read_text()


def test_all_figures_that_the_runs_allow(runs: Path, run: Any) -> None:
    code, out, _ = run("figure", "all", "runs/seed-0", "--out", "made/here")
    assert code == 0
    lines = out.splitlines()
    assert len(lines) == len(FIGURES)
    left_out = [line for line in lines if line.startswith("Skipped: the figure ")]
    assert [line.split()[3] for line in left_out] == ["steps", "clusters", "heads", "optimizers"]
    written = {path.stem for path in Path("made/here").iterdir()}
    assert written == set(FIGURES) - {"steps", "clusters", "heads", "optimizers"}
    assert all(f"Wrote made/here/{name}.png." in lines for name in written)


def test_a_figure_for_a_column_of_a_paper(runs: Path, run: Any) -> None:
    options = ["--width", "column", "--font-size", "7", "--title", "My runs"]
    assert run("figure", "groups", "runs/seed-0", "--out", "g.svg", *options)[0] == 0
    assert 'width="234pt"' in Path("g.svg").read_text()  # 3.25 inches
    assert run("figure", "groups", "runs/seed-0", "--out", "page.svg", "--width", "6.5")[0] == 0
    assert 'width="468pt"' in Path("page.svg").read_text()


def test_rows_of_a_figure(runs: Path, run: Any) -> None:
    made_up_run(runs / "seed-2", ["a", "b", "c"], seed=2)
    assert run("figure", "matrix", "runs/seed-0", "--out", "one.png")[0] == 0
    assert run("figure", "matrix", "runs", "--out", "both.png", "--where", "seed=0")[0] == 0
    assert Path("both.png").read_bytes() == Path("one.png").read_bytes()
    code, _, err = run("figure", "groups", "runs/seed-0", "--rows", "r*")
    assert code == 2
    assert (
        "the figure groups needs rows of raw and ea of one training: --rows hides some of these. Add them to --rows"
        in err
    )
    assert "energyalign longtail" not in err
    _, out, _ = run("figure", "all", "runs/seed-0", "--rows", "ea", "--out", "few")
    assert "Skipped: the figure energies needs rows of raw and ea of one training: --rows hides some" in out
    assert "energyalign longtail DATASET --clusters" in run("figure", "clusters", "runs/seed-0", "--rows", "ea")[2]


def test_names_of_folders_do_not_command_the_terminal(runs: Path, run: Any) -> None:
    (runs / "seed-1").rename(runs / "seed\x1b[31m")
    code, out, err = run("figure", "groups", "runs", "--out", "g\x1b.png")
    assert (code, out) == (0, "Wrote g\ufffd.png.\n")
    assert err == "warning: runs/seed\ufffd[31m has no rows yet and is skipped.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense", "runs"], "unknown figure 'nonsense': choose one of energies, frequencies,"),
        (["groups", "nowhere"], "nowhere: there is no such folder"),
        (["groups", "runs", "--out", "g.gif"], "a figure must be a .png, .svg or .pdf file, got g.gif"),
        (["groups", "runs", "--out", "no/g.png"], "there is no folder no"),
        (["steps", "runs/seed-0"], "the figure steps needs runs whose classes came in steps"),
        (["groups", "runs/seed-1"], "has no rows yet"),
        (["groups", "runs/seed-0", "--width", "wide"], "width must be column, page or a number of inches from 2 to 40"),
        (["groups", "runs/seed-0", "--width", "nan"], "inches from 2 to 40, got 'nan'"),
        (["groups", "runs/seed-0", "--font-size", "99"], "font size must be from 4 to 30 points, got 99"),
        (["groups", "runs/seed-0", "--rows", "crt"], "no row matches 'crt': choose from ce, ea, raw"),
        (["groups", "runs/seed-0", "--where", "seed=7"], "no row has seed=7: choose seed from 0"),
        (["all", "runs/seed-0", "--out", "runs/seed-0/rows.jsonl"], "cannot make the folder"),
    ],
)
def test_bad_input_is_one_line(runs: Path, run: Any, files_in: Any, arguments: list[str], message: str) -> None:
    before = files_in(Path())
    code, out, err = run("figure", *arguments)
    assert (code, out) == (2, "")
    error = [line for line in err.splitlines() if not line.startswith("warning:")]
    assert len(error) == 1
    assert message in error[0]
    assert files_in(Path()) == before


def test_help_and_list_name_every_figure(capsys: Any, run: Any) -> None:
    with pytest.raises(SystemExit):
        run("figure", "--help")
    told = capsys.readouterr().out
    _, listed, _ = run("list", "figures")
    for name, entry in FIGURES.items():
        assert f"  {name} " in told
        assert entry.description in told
        assert entry.description in listed
    assert "example" in told
