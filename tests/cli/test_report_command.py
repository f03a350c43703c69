"""`energyalign report` and `energyalign fit --report` as users run them."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stored_runs import long_tail_run

from energyalign.report.page import write
from energyalign.report.page.story import Pictures


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return long_tail_run(tmp_path_factory.mktemp("report") / "seed-0", epochs=1)


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "draw_pictures", lambda _: Pictures([], []))


def data_of(page: Path) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_a_page_of_a_folder_of_runs(run: Any, stored: Path, tmp_path: Path, no_figures: None) -> None:
    page = tmp_path / "page.html"
    code, out, _ = run("report", str(stored.parent), "--out", str(page), "--title", "Mine")
    assert (code, out) == (0, f"Wrote {page}.\n")
    assert "<h1>Mine</h1>" in page.read_text()
    (live,) = data_of(page)
    assert live["name"] == "digits-lt-50, ce, cosine head, seed 0"
    names = [correction["name"] for correction in live["views"][0]["corrections"]]
    assert names[0] == "ea"  # the paper's first
    assert sorted(names) == ["ea", "ea-auto", "ea-marginal", "logit-adjustment"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere"], "nowhere: there is no such folder"),
        (["{run}", "--out", "{run}"], "is a directory: give the name of a file"),
        (["{run}", "--out", "{run}/no/page.html"], "there is no folder"),
    ],
)
def test_bad_input(run: Any, stored: Path, arguments: list[str], told: str) -> None:
    code, _, error = run("report", *(word.format(run=stored) for word in arguments))
    assert code == 2
    assert told in error.lower()


def test_served_until_ctrl_c(stored: Path, tmp_path: Path) -> None:
    """In a real process: it prints the address, serves the page, and ends without a traceback."""
    command = [sys.executable, "-m", "energyalign.cli.main", "report", str(stored), "--serve", "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=dict(os.environ)
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        port = int(re.fullmatch(r"http://localhost:(\d+)/ \(Ctrl-C to stop\)\n", said)[1])  # type: ignore[index]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/")
        answer = connection.getresponse()
        assert answer.status == 200
        assert b"connect-src 'self'" in answer.read()
        connection.close()
    finally:
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
    assert (process.returncode, out, error) == (0, "Stopped.\n", "")
    assert list(tmp_path.iterdir()) == []


def test_a_page_of_ones_own_logits(run: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    counts = np.array([300, 30, 10])
    labels = np.repeat(np.arange(3), 40)
    logits = random.standard_normal((120, 3)) + np.log(counts)
    logits[np.arange(120), labels] += 2.5
    np.save(tmp_path / "logits.npy", logits)
    np.save(tmp_path / "labels.npy", labels)
    (tmp_path / "counts.json").write_text(json.dumps({"<b>cat</b>": 300, "dog": 30, "eel": 10}))
    files = {name: str(tmp_path / name) for name in ("logits.npy", "labels.npy", "counts.json", "page.html")}
    given = ["fit", files["logits.npy"], "--counts", files["counts.json"], "--evidence", "held-out"]
    code, out, _ = run(*given, "--labels", files["labels.npy"], "--report", files["page.html"])
    assert code == 0
    assert f"Wrote {files['page.html']}." in out
    page = tmp_path / "page.html"
    assert "<b>cat" not in page.read_text()
    (view,) = data_of(page)[0]["views"]
    assert view["classNames"] == ["<b>cat</b>", "dog", "eel"]
    fitted, *others = view["corrections"]
    assert fitted["name"].startswith("fitted: ")
    assert [other["name"] for other in others] == ["lse, per-class", "marginal, per-class", "prior, per-class"]
    prior = np.array(others[2]["shifts"])
    np.testing.assert_allclose(prior - prior[2], -np.log(counts / counts[2]), atol=1e-9)


def test_a_page_needs_labels(run: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "logits.npy", np.zeros((4, 2)))
    code, _, error = run("fit", str(tmp_path / "logits.npy"), "--report", str(tmp_path / "page.html"))
    assert code == 2
    assert "--report needs labels: give --labels, or leave --report out." in error
    assert not (tmp_path / "page.html").exists()
