"""Hostile JSON is refused by name in each of our files."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from energyalign.core.errors import EnergyAlignError
from energyalign.core.shifts import Shifts
from energyalign.experiments.data.manifest import Manifest
from energyalign.experiments.engine.stored import measured_runs
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.presets import PRESETS
from energyalign.experiments.train.run_directory import RunDirectory
from energyalign.files import read_assignment, read_counts, read_labels

pytestmark = pytest.mark.promise("A hostile file cannot run code, escape its folder or exhaust memory", "hostile files")

READERS: dict[str, Callable[[Path], object]] = {
    "shifts.json": Shifts.load,
    "manifest.json": Manifest.load,
    "config.json": lambda path: LongTailConfig.from_json(RunDirectory(path.parent).read_json(path.name) or {}),
    "rows.jsonl": lambda path: _rows_of(path.parent),
    "labels.json": read_labels,
    "counts.json": read_counts,
    "clusters.json": read_assignment,
}

HOSTILE: dict[str, bytes] = {
    "code to call": b'{"__reduce__": ["os.system", ["touch code-ran"]], "__class__": "os.system"}',
    "an object of jsonpickle": b'{"py/object": "os.system", "py/reduce": [{"py/function": "os.system"}, ["true"]]}',
    "a number without end": b"[1e400, -1e400]",
    "a whole number of a million digits": b"[" + b"9" * 10**6 + b"]",
    "nested too deeply": b"[" * 100_000 + b"]" * 100_000,
    "objects nested too deeply": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a key twice": b'{"schema": 1, "schema": 2}',
    "half a character": rb'{"\ud800": "\ud800"}',
    "half a character in bytes": b'{"\xed\xa0\x80": 1}',
    "NUL": b'{"a\0": 1}',
    "NUL, escaped": rb'{"kind\u0000": "\u0000"}',
    "another encoding": '{"a": 1}'.encode("utf-16"),
    "nothing": b"",
    "null": b"null",
}


def _rows_of(folder: Path) -> object:
    """With complete settings, and with a valid hash if possible, so that the content is the reason for the refusal."""
    with contextlib.suppress(Exception):  # what is no object has no hash
        row: dict[str, object] = dict(json.loads((folder / "rows.jsonl").read_bytes()))
        row.pop("sha256", None)
        RunDirectory(folder).write_rows([row])
    config = LongTailConfig.from_preset(PRESETS["digits-lt-50"], seed=0)
    (folder / "config.json").write_text(json.dumps(config.to_json()))
    return measured_runs([folder])


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("name", READERS)
def test_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, case: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(HOSTILE[case])
    with pytest.raises(EnergyAlignError) as raised:
        READERS[name](tmp_path / name)
    named = [name, "settings", *(["has no rows yet"] if case == "nothing" else [])]
    assert any(word in str(raised.value) for word in named)
    assert len(str(raised.value)) < 2000
    assert not (tmp_path / "code-ran").exists()


def test_settings_without_what_tables_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"kind": "LongTailConfig", "name": "a", "head": "linear", "seed": 0}')
    RunDirectory(tmp_path).write_rows([{"corrector": "../../../etc/passwd"}])
    with pytest.raises(EnergyAlignError, match=r"config\.json was changed, .*: config\.backbone must be text"):
        measured_runs([tmp_path])


def test_rows_without_what_tables_read(tmp_path: Path) -> None:
    RunDirectory(tmp_path).write_rows([{"corrector": "../../../etc/passwd"}])
    with pytest.raises(EnergyAlignError, match=r"rows\.jsonl, line 1, was changed, .*: cell is missing"):
        _rows_of(tmp_path)
