"""JSON made to do harm is refused by name, whichever file of ours it is in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from energyalign.core.errors import EnergyAlignError
from energyalign.core.shifts import Shifts
from energyalign.data.manifest import Manifest
from energyalign.files import read_assignment, read_counts, read_labels, read_prior
from energyalign.longtail.config import LongTailConfig
from energyalign.report.runs import find_runs, measured_runs
from energyalign.train.run_directory import RunDirectory

READERS: dict[str, Callable[[Path], object]] = {
    "shifts.json": Shifts.load,
    "manifest.json": Manifest.load,
    "config.json": lambda path: LongTailConfig.from_json(RunDirectory(path.parent).read_json(path.name) or {}),
    "rows.jsonl": lambda path: [run.checked() for run in _with_config(path)],
    "labels.json": read_labels,
    "counts.json": read_counts,
    "prior.json": lambda path: read_prior(path, None),
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


def _with_config(path: Path) -> object:
    (path.parent / "config.json").write_text('{"kind": "LongTailConfig"}')
    return find_runs([path.parent])


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("name", READERS)
def test_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, case: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(HOSTILE[case])
    with pytest.raises(EnergyAlignError) as raised:
        READERS[name](tmp_path / name)
    assert name in str(raised.value) or "settings" in str(raised.value) or "config.json" in str(raised.value)
    assert len(str(raised.value)) < 2000
    assert not (tmp_path / "code-ran").exists()


def test_rows_without_what_tables_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"kind": "LongTailConfig", "name": "a", "head": "linear", "seed": 0}')
    (tmp_path / "rows.jsonl").write_text('{"corrector": "../../../etc/passwd"}\n')
    with pytest.raises(EnergyAlignError, match=r"config\.json has no 'backbone' that could be read"):
        measured_runs([tmp_path])
