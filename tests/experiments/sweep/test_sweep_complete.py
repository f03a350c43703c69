"""A sweep runs what is missing despite failures: real processes, some of which are killed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from planned import PROGRAM, planned

from energyalign.core._io.signals import Interrupted
from energyalign.core.errors import CannotGoOn
from energyalign.experiments.sweep.complete import Completion, SweepState, log_of
from energyalign.experiments.sweep.plan import PlannedRun
from energyalign.experiments.sweep.processes import LocalEngine

HELPERS = Path(__file__).parents[2] / "helpers"


@pytest.fixture(autouse=True)
def _program_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HELPERS), os.environ.get("PYTHONPATH", "")]))


def complete(out: Path, runs: list[PlannedRun], *, jobs: int = 2, retries: int = 3, watcher: Any = None) -> Any:
    """Complete the sweep; return its state and the errors of failed runs."""
    completion = Completion(
        out, runs, LocalEngine(jobs, cpus=1), program=PROGRAM, retries=retries, delays=(0.0,),
        watcher=watcher or (lambda _state: None),
    )  # fmt: skip
    errors = completion.finish()
    return completion.state, errors


def states(out: Path) -> dict[str, str]:
    return {name: about["state"] for name, about in json.loads((out / "sweep.json").read_text())["runs"].items()}


def tries(run: PlannedRun) -> int:
    return len((run.folder / "tries.txt").read_text().splitlines())


def test_runs_all_and_never_more_at_once_than_asked_for(tmp_path: Path) -> None:
    runs = [planned(tmp_path, f"run-{i}") for i in range(5)]
    most = []
    _state, errors = complete(tmp_path, runs, jobs=2, watcher=lambda state: most.append(len(state.running)))
    assert max(most) == 2
    assert states(tmp_path) == {run.name: "done" for run in runs}
    assert not errors
    assert {line.split()[1] for run in runs for line in (run.folder / "tries.txt").read_text().splitlines()} == {"1"}


def test_one_that_fails_is_recorded_with_its_error_and_the_rest_goes_on(tmp_path: Path) -> None:
    bad, good = planned(tmp_path, "bad", "fail"), planned(tmp_path, "good")
    _state, errors = complete(tmp_path, [bad, good], jobs=1)
    assert errors == {"bad": "there is no such thing."}
    assert states(tmp_path) == {"bad": "failed", "good": "done"}
    assert "no such thing" in log_of(tmp_path, bad).read_text()


def test_a_second_time_runs_only_what_is_missing(tmp_path: Path) -> None:
    complete(tmp_path, [planned(tmp_path, "a"), planned(tmp_path, "b", "fail"), planned(tmp_path, "c", n_steps=2)])
    again = [planned(tmp_path, "a"), planned(tmp_path, "b"), planned(tmp_path, "c", n_steps=2)]
    state, _errors = complete(tmp_path, again)
    assert [run.name for run in state.skipped] == ["a", "c"]
    assert states(tmp_path) == {"a": "done", "b": "done", "c": "done"}
    assert (tries(again[0]), tries(again[1])) == (1, 2)


def test_a_run_with_rows_of_some_steps_or_of_another_setting_is_not_done(tmp_path: Path) -> None:
    complete(tmp_path, [planned(tmp_path, "a", n_steps=2)])
    assert planned(tmp_path, "a", n_steps=2).is_done()
    assert not planned(tmp_path, "a", n_steps=3).is_done()
    rows = tmp_path / "a" / "rows.jsonl"
    rows.write_text(rows.read_text().splitlines(keepends=True)[0])
    assert not planned(tmp_path, "a", n_steps=2).is_done()


def test_a_killed_process_is_started_again(tmp_path: Path) -> None:
    run = planned(tmp_path, "a", "be-killed")
    state, _errors = complete(tmp_path, [run])
    assert states(tmp_path) == {"a": "done"}
    assert tries(run) == 2
    assert [reason for _, reason in state.losses] == ["its process was ended by SIGKILL"]


def test_but_not_for_ever(tmp_path: Path) -> None:
    run = planned(tmp_path, "a", "always-be-killed")
    _state, errors = complete(tmp_path, [run, planned(tmp_path, "b")], retries=2)
    assert tries(run) == 3
    assert "started 3 times; last: its process was ended by SIGKILL" in errors["a"]
    assert states(tmp_path)["b"] == "done"


def test_what_was_in_its_way_for_a_while_is_tried_again(tmp_path: Path) -> None:
    """A process of the run was killed, or a lost machine still holds the lock of the folder."""
    run = planned(tmp_path, "a", "find-it-in-use")
    state, _errors = complete(tmp_path, [run])
    assert (states(tmp_path), tries(run)) == ({"a": "done"}, 2)
    assert [reason for _, reason in state.losses] == ["it is in use by another process."]


def test_later_tries_wait_before_they_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a fake clock that advances by a second at every call."""
    now, began, lost = [0.0], [], []

    class Engine(LocalEngine):
        def start(self, *arguments: Any) -> Any:
            began.append(now[0])
            return super().start(*arguments)

    def look(state: SweepState) -> None:
        lost.extend([now[0]] * (len(state.losses) - len(lost)))
        now[0] += 1.0

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    run = planned(tmp_path, "a", "always-be-killed")
    Completion(tmp_path, [run], Engine(1), program=PROGRAM, retries=2, watcher=look, delays=(0.0, 10.0)).finish()
    assert [again - at for again, at in zip(began[1:], lost, strict=True)] == [1.0, 10.0]


def test_a_damaged_folder_fails_alone(tmp_path: Path) -> None:
    runs = [planned(tmp_path, "a", "fail"), planned(tmp_path, "b")]
    runs[0].folder.mkdir()
    (runs[0].folder / "config.json").write_text(json.dumps(runs[0].config))
    (runs[0].folder / "rows.jsonl").write_text('{"corrector": ')
    assert complete(tmp_path, runs)[1] == {"a": "there is no such thing."}
    assert states(tmp_path) == {"a": "failed", "b": "done"}


def test_the_error_is_that_of_the_last_try(tmp_path: Path) -> None:
    run = planned(tmp_path, "a", "fail")
    complete(tmp_path, [run])
    silent = PlannedRun(run.name, run.folder, (*run.command[:2], "fail-silently"), run.config, run.correctors)
    assert complete(tmp_path, [silent])[1] == {"a": "it printed nothing"}


def test_stopped_it_has_all_processes_save_first(tmp_path: Path) -> None:
    runs = [planned(tmp_path, name, "wait") for name in ("a", "b", "c")]
    asked: list[bool] = []

    def stop(_state: SweepState) -> None:
        if not asked and all((run.folder / "waits.txt").exists() for run in runs[:2]):
            asked.append(True)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted) as stopped:
        complete(tmp_path, runs, jobs=2, watcher=stop)
    assert stopped.value.signal_number == signal.SIGINT
    assert [(run.folder / "saved.txt").read_text() for run in runs[:2]] == ["SIGTERM", "SIGTERM"]
    assert not runs[2].folder.exists()
    assert states(tmp_path) == {"a": "stopped", "b": "stopped", "c": "waiting"}


@pytest.mark.promise("Moving or removing the files of a run stops it without loss", "losses")
@pytest.mark.parametrize("how", ["moved", "removed", "replaced"])
def test_without_its_folder_it_has_all_processes_save_first(tmp_path: Path, how: str) -> None:
    out, away = tmp_path / "sweep", tmp_path / "away"
    out.mkdir()
    runs = [planned(out, name, "wait") for name in ("a", "b")]
    lost: list[bool] = []

    def lose(_state: SweepState) -> None:
        if not lost and (runs[0].folder / "waits.txt").exists():
            lost.append(True)
            out.rename(away)
            if how == "removed":
                shutil.rmtree(away)
            if how == "replaced":
                out.mkdir()

    where = "removed" if how == "removed" else f"moved to {re.escape(str(away))}"
    with pytest.raises(CannotGoOn, match=f"sweep was {where} during the sweep") as stopped:
        complete(out, runs, jobs=1, watcher=lose)
    assert ("in place of what is there now" in str(stopped.value)) == (how == "replaced")
    if how == "removed":
        assert not out.exists()
        return
    assert states(away) == {"a": "stopped", "b": "waiting"}
    assert (away / "a" / "saved.txt").read_text() == "SIGTERM"


def test_its_processes_do_not_outlive_it(tmp_path: Path) -> None:
    """Otherwise they would hold the locks of their run directories when the sweep is resumed."""
    code = (
        "from pathlib import Path; import sys; import time;"
        "from energyalign.experiments.sweep.processes import LocalEngine;"
        "LocalEngine(1).start(sys.argv[1:], Path('log.txt')); time.sleep(60)"
    )
    run = planned(tmp_path, "a", "wait")
    sweep = subprocess.Popen([sys.executable, "-c", code, *PROGRAM, *run.command], cwd=tmp_path)
    wait_until((run.folder / "waits.txt").exists)
    pid = int((run.folder / "tries.txt").read_text().split()[0])
    sweep.kill()
    sweep.wait()
    wait_until(lambda: not is_alive(pid))
    assert not (run.folder / "saved.txt").exists()  # it had no time for that


def is_alive(pid: int) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def wait_until(condition: Any) -> None:
    waiting = threading.Event()
    for _ in range(600):
        if condition():
            return
        waiting.wait(0.05)
    raise AssertionError("it did not happen within half a minute")


def test_time_left_weighs_runs_by_their_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    runs = [PlannedRun(name, tmp_path, (), {}, (), hours) for name, hours in (("a", 1.0), ("b", 3.0), ("c", 2.0))]
    state = SweepState(runs)
    assert state.seconds_left is None
    state.begin(runs[0])
    now[0] += 10.0
    state.end(runs[0], failed=False)
    assert state.seconds_left == pytest.approx(50.0)
    state.end(runs[1], failed=False)  # was done before, so it does not count for the speed
    assert state.seconds_left == pytest.approx(20.0)


def test_a_run_that_ends_well_without_its_rows_fails_with_that_reason(tmp_path: Path) -> None:
    run = planned(tmp_path, "a")
    other = PlannedRun(run.name, run.folder, run.command, run.config | {"memory": 1}, run.correctors)
    (reason,) = complete(tmp_path, [other])[1].values()
    assert reason.startswith(f"it ended without an error, but {run.folder} lacks rows of this plan")
