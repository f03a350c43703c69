"""Run directories: settings, rows, and the lock."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from warm_process import WarmProcess

from energyalign import EnergyAlignError
from energyalign.core._io.atomic import atomic_write
from energyalign.core.errors import CannotGoOn
from energyalign.experiments.train.locking import locked
from energyalign.experiments.train.run_directory import MovedWhileWriting, RunDirectory, open_run

CONFIG: dict[str, Any] = {"seed": 0, "recipe": {"epochs": 3, "lr": 0.1}}


def test_the_same_config_opens_it_again(tmp_path: Path) -> None:
    with open_run(tmp_path / "run", CONFIG) as run:
        run.write_rows([{"method": "raw", "accuracy": 0.5}])
    with open_run(tmp_path / "run", CONFIG) as run:
        assert run.read_rows() == [{"method": "raw", "accuracy": 0.5}]


def test_another_config_is_refused_with_the_difference(tmp_path: Path) -> None:
    with open_run(tmp_path / "run", CONFIG):
        pass
    wanted = {"seed": 1, "recipe": {"epochs": 3, "lr": 0.2}}
    with (
        pytest.raises(EnergyAlignError, match=r"recipe\.lr is 0\.1 there and 0\.2 here; seed is 0 there and 1 here"),
        open_run(tmp_path / "run", wanted),
    ):
        pass


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with (
        pytest.raises(EnergyAlignError, match=r"is not a run directory and is not empty \(thesis.tex\)"),
        open_run(tmp_path, CONFIG),
    ):
        pass


def test_what_a_killed_process_left_of_its_first_file_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / ".abc123.json.part").write_text('{"se')
    with open_run(tmp_path, CONFIG) as run:
        assert run.read_json("config.json") == CONFIG


def test_a_second_process_is_refused_and_a_dead_one_does_not_block(tmp_path: Path) -> None:
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom energyalign.experiments.train.run_directory import open_run\n"
        f"with open_run(Path({str(tmp_path / 'run')!r}), {CONFIG!r}):\n    print('in', flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"in\n"
        with pytest.raises(EnergyAlignError, match="is in use by another process"), open_run(tmp_path / "run", CONFIG):
            pass
        holder.kill()
    with open_run(tmp_path / "run", CONFIG):
        pass


def test_damaged_files_are_named(tmp_path: Path) -> None:
    with open_run(tmp_path / "run", CONFIG) as run:
        (run.path / "rows.jsonl").write_text('{"accuracy": NaN}\n')
        with pytest.raises(EnergyAlignError, match=r"rows\.jsonl, line \d+, cannot be read: NaN is not a JSON number"):
            run.read_rows()
    (tmp_path / "run" / "config.json").write_text("{")
    with pytest.raises(EnergyAlignError, match=r"config\.json cannot be read"), open_run(tmp_path / "run", CONFIG):
        pass


def test_a_row_that_was_changed_is_named(tmp_path: Path) -> None:
    with open_run(tmp_path / "run", CONFIG) as run:
        run.write_rows([{"accuracy": 0.5}, {"accuracy": 0.25}])
        path = run.path / "rows.jsonl"
        path.write_text(path.read_text().replace("0.25", "0.75"))
        with pytest.raises(EnergyAlignError, match=r"rows\.jsonl, line 2, was changed after it was written.* Remove"):
            run.read_rows()
        path.write_text('{"accuracy": 0.5}\n')
        with pytest.raises(EnergyAlignError, match=r"rows\.jsonl, line 1, has no hash, .* Remove the file"):
            run.read_rows()


def test_a_setting_that_only_one_side_has_is_named(tmp_path: Path) -> None:
    newer = {**CONFIG, "recipe": {**CONFIG["recipe"], "warm_up": 5}, "temperature": 2.0}
    with open_run(tmp_path / "run", newer):
        pass
    with (
        pytest.raises(
            EnergyAlignError,
            match=r"recipe\.warm_up is 5 there and not set here; temperature is 2\.0 there and not set here\.",
        ),
        open_run(tmp_path / "run", CONFIG),
    ):
        pass


def test_a_difference_is_told_even_if_it_is_between_nothing_and_null(tmp_path: Path) -> None:
    with open_run(tmp_path / "run", CONFIG):
        pass
    with (
        pytest.raises(EnergyAlignError, match="another config: teacher is not set there and null here"),
        open_run(tmp_path / "run", {**CONFIG, "teacher": None}),
    ):
        pass


def test_another_kind_of_setting_is_another_config(tmp_path: Path) -> None:
    with open_run(tmp_path / "run", {"learner": {"kind": "Focal", "gamma": 1.0}}):
        pass
    with (
        pytest.raises(EnergyAlignError, match=r"holds a run with another config: learner\.gamma is 1\.0 there"),
        open_run(tmp_path / "run", {"learner": {"kind": "CrossEntropy"}}),
    ):
        pass


def test_what_killed_processes_left_is_removed_but_not_what_others_are_writing(tmp_path: Path) -> None:
    with open_run(tmp_path, CONFIG):
        pass
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "step-01" / ".training.part").mkdir(parents=True)
    (tmp_path / "step-01" / ".training.part" / "config.json").write_text("{}")
    for name in (".ab1.jsonl.part", "checkpoints/.2f9.safetensors.part", ".abc.html.part"):
        (tmp_path / name).write_text("half")
    with open_run(tmp_path, CONFIG) as run:
        assert run.was_there
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    assert left == {".lock", "config.json", "checkpoints", "step-01", ".abc.html.part"}


@pytest.mark.parametrize("line", ["7", "null", '["a"]', '"raw"'])
def test_a_row_that_is_no_object_is_named(tmp_path: Path, line: str) -> None:
    with open_run(tmp_path / "run", CONFIG) as run:
        run.write_rows([{"accuracy": 0.5}])
        with (run.path / "rows.jsonl").open("a") as stream:
            stream.write(f"{line}\n")
        with pytest.raises(
            EnergyAlignError, match=r"rows\.jsonl, line 2, does not hold a JSON object\. Remove the file"
        ):
            run.read_rows()


def test_of_two_ranks_the_first_opens_it_and_both_hear_of_a_refusal(tmp_path: Path) -> None:
    """With the ranks of a real process group."""
    script = """
import sys
from pathlib import Path
from lightning_fabric import Fabric
from energyalign import EnergyAlignError
from energyalign.experiments.train.run_directory import open_run

def work(fabric, folder):
    rank = fabric.global_rank
    with open_run(folder / "run", {"seed": 0}, fabric) as run:
        assert (folder / "run" / "config.json").exists()
        run.write_json("answer.json", {"rank": rank})
        run.write_rows([{"rank": rank}])
        fabric.barrier()
        assert run.read_json("answer.json") == {"rank": 0}
        assert run.read_rows() == [{"rank": 0}]
    try:
        with open_run(folder / "run", {"seed": 1}, fabric):
            told = "opened"
    except EnergyAlignError as error:
        told = str(error)
    (folder / f"told{rank}.txt").write_text(told)

if __name__ == "__main__":
    Fabric(accelerator="cpu", devices=2, strategy="ddp_fork").launch(work, Path(sys.argv[1]))
"""
    (tmp_path / "script.py").write_text(script)
    process = WarmProcess([tmp_path / "script.py", tmp_path], tmp_path, tmp_path / "logs")
    assert process.wait() == 0, process.stderr
    told = [(tmp_path / f"told{rank}.txt").read_text() for rank in (0, 1)]
    assert told[0] == told[1]
    assert "holds a run with another config: seed is 0 there and 1 here" in told[0]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(EnergyAlignError, match=r"cannot use the folder .*file: File exists"),
        open_run(tmp_path / "file", CONFIG),
    ):
        pass


HOLDER = """
import sys, time
from pathlib import Path
from torch.utils.data import DataLoader
from energyalign.experiments.train.locking import locked

class Slow:
    def __len__(self):
        return 10
    def __getitem__(self, index):
        Path(sys.argv[1], f"reader-{index}").write_text(str(__import__("os").getpid()))
        time.sleep(60)  # a file server that does not answer: nobody ends this reader

with locked(Path(sys.argv[1], "run")):
    next(iter(DataLoader(Slow(), num_workers=1)))
"""


def test_a_second_holder_is_refused_in_the_same_process_too(tmp_path: Path) -> None:
    with (
        locked(tmp_path / "run"),
        pytest.raises(EnergyAlignError, match="is in use by another process"),
        locked(tmp_path / "run"),
    ):
        pass
    with locked(tmp_path / "run"):
        pass


def test_readers_that_outlive_a_killed_holder_do_not_keep_its_lock(tmp_path: Path) -> None:
    (tmp_path / "holder.py").write_text(HOLDER)
    holder = WarmProcess([tmp_path / "holder.py", tmp_path], tmp_path, tmp_path / "logs")
    reader = tmp_path / "reader-0"
    while not (reader.exists() and reader.read_text()):
        assert holder.poll() is None, holder.stderr
        time.sleep(0.01)
    with pytest.raises(EnergyAlignError, match="is in use by another process"), locked(tmp_path / "run"):
        pass
    os.kill(holder.pid, signal.SIGKILL)
    assert holder.wait() == -signal.SIGKILL
    try:
        os.kill(int(reader.read_text()), 0)  # it lives
        with locked(tmp_path / "run"):
            pass
    finally:
        os.kill(int(reader.read_text()), signal.SIGKILL)


def test_what_is_forked_while_it_is_held_does_not_end_it(tmp_path: Path) -> None:
    with locked(tmp_path / "run"):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        with pytest.raises(EnergyAlignError, match="is in use by another process"), locked(tmp_path / "run"):
            pass


def test_a_file_system_without_locks_is_refused_rather_than_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A marker file instead of a lock would outlive a killed process."""

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with pytest.raises(EnergyAlignError, match=r"cannot be locked: .* Give an --out"), locked(tmp_path / "run"):
        pass


def keep(run: RunDirectory, text: str) -> None:
    with run.saving(make_again=True) as folder:
        (folder / "kept.txt").write_text(text)


class TestFolderThatIsNotAsItWas:
    """Results are kept, the run stops with an error, and the same settings resume it."""

    def run_with(self, path: Path, happens: Callable[[], object], save: Callable[[RunDirectory], object]) -> str:
        def go() -> None:
            with open_run(path, CONFIG) as run:
                run.write_json("state.json", {"epoch": 1})
                happens()
                save(run)

        with pytest.raises(CannotGoOn) as caught:
            go()
        return str(caught.value)

    @pytest.mark.parametrize("linux", [True, False])
    def test_moved(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linux: bool) -> None:
        if not linux:
            monkeypatch.setattr(os, "readlink", _unknown)
        path, away = tmp_path / "run", tmp_path / "other"
        told = self.run_with(path, lambda: path.rename(away), lambda run: keep(run, "new"))
        assert told.startswith(f"{path} was moved to {away} during its run. Everything is saved there: move it back")
        assert (away / "kept.txt").read_text() == "new"
        assert os.listdir(tmp_path) == ["other"]
        away.rename(path)
        with open_run(path, CONFIG) as run:
            assert run.was_there

    def test_moved_with_the_folder_that_it_is_in(self, tmp_path: Path) -> None:
        (tmp_path / "far").mkdir()
        top, away = tmp_path / "runs", tmp_path / "far" / "runs"
        told = self.run_with(top / "a" / "run", lambda: top.rename(away), lambda run: run.write_rows([{"a": 1}]))
        assert f"was moved to {away / 'a' / 'run'} " in told
        assert RunDirectory(away / "a" / "run").read_rows() == [{"a": 1}]

    def test_another_folder_in_its_place_is_not_touched(self, tmp_path: Path) -> None:
        path, away = tmp_path / "run", tmp_path / "away"

        def exchange() -> None:
            path.rename(away)
            path.mkdir()

        self.run_with(path, exchange, lambda run: keep(run, "new"))
        assert list(path.iterdir()) == []
        assert (away / "kept.txt").read_text() == "new"

    def test_moved_when_nothing_is_left_to_save(self, tmp_path: Path) -> None:
        path = tmp_path / "run"
        assert "was moved to" in self.run_with(path, lambda: path.rename(tmp_path / "other"), lambda _: None)

    def test_removed_and_made_again(self, tmp_path: Path) -> None:
        path = tmp_path / "run"
        told = self.run_with(path, lambda: shutil.rmtree(path), lambda run: keep(run, "new"))
        assert told == (
            f"{path} was removed during its run. It was created again from memory: the same command resumes it."
        )
        with open_run(path, CONFIG) as run:
            assert run.was_there
            assert (path / "kept.txt").read_text() == "new"

    def test_removed_with_nothing_in_memory(self, tmp_path: Path) -> None:
        path = tmp_path / "run"
        told = self.run_with(path, lambda: shutil.rmtree(path), lambda run: run.write_rows([{"a": 1}]))
        assert told.endswith("was removed during its run: nothing is left of it. The same command starts it again.")
        assert not path.exists()

    def test_a_stage_removed_with_its_run(self, tmp_path: Path) -> None:
        path = tmp_path / "run"

        def go() -> None:
            with open_run(path, CONFIG) as run, open_run(path / "a" / "b", {"c": 1}, within=run) as stage:
                shutil.rmtree(path)
                keep(stage, "new")

        with pytest.raises(CannotGoOn, match=r"b was removed .* created again"):
            go()
        with open_run(path, CONFIG) as run, open_run(path / "a" / "b", {"c": 1}, within=run) as stage:
            assert (run.was_there, stage.was_there) == (True, True)
            assert (stage.path / "kept.txt").read_text() == "new"

    def test_a_stage_does_not_make_a_moved_run_again(self, tmp_path: Path) -> None:
        def go() -> None:
            with open_run(tmp_path / "run", CONFIG) as run:
                run.path.rename(tmp_path / "other")
                with open_run(run.path / "stage", {}, within=run):
                    pytest.fail("it must not begin")

        with pytest.raises(CannotGoOn, match="was moved to"):
            go()
        assert os.listdir(tmp_path) == ["other"]

    def test_without_its_config(self, tmp_path: Path) -> None:
        path = tmp_path / "run"
        told = self.run_with(path, (path / "config.json").unlink, lambda run: keep(run, run.config_sha256))
        assert told.startswith(f"{path / 'config.json'} was removed during its run. It was written again")
        with open_run(path, CONFIG) as run:
            assert (path / "kept.txt").read_text() == run.config_sha256

    @pytest.mark.parametrize("make", [lambda path: path.write_text('{"seed":'), Path.mkdir, os.mkfifo])
    def test_with_a_config_that_cannot_be_read(self, tmp_path: Path, make: Callable[[Path], object]) -> None:
        path = tmp_path / "run"

        def damage() -> None:
            (path / "config.json").unlink()
            make(path / "config.json")

        told = self.run_with(path, damage, lambda run: keep(run, run.config_sha256))
        assert "config.json was damaged during its run, and is config.json.damaged now. It was written again" in told
        with open_run(path, CONFIG) as run:
            assert (path / "kept.txt").read_text() == run.config_sha256

    def test_moved_while_a_file_is_written(self, tmp_path: Path) -> None:
        path, away = tmp_path / "run", tmp_path / "other"

        def move_and_fail(run: RunDirectory) -> None:
            with run.saving(make_again=True) as folder, atomic_write(folder / "kept.txt"):
                path.rename(away)

        def save(run: RunDirectory) -> None:
            with pytest.raises(MovedWhileWriting, match="was moved or removed during its run: cannot write "):
                move_and_fail(run)
            keep(run, "new")  # as a training does

        assert "was moved to" in self.run_with(path, lambda: None, save)
        assert (away / "kept.txt").read_text() == "new"

    def test_with_another_config(self, tmp_path: Path) -> None:
        path = tmp_path / "run"
        told = self.run_with(
            path, lambda: (path / "config.json").write_text('{"seed": 1}'), lambda run: keep(run, run.config_sha256)
        )
        assert "config.json was changed during its run: " in told
        assert "seed is 1 there and 0 here. Put it back" in told
        (path / "config.json").write_text(json.dumps(CONFIG))
        with open_run(path, CONFIG) as run:
            assert (path / "kept.txt").read_text() == run.config_sha256


def _unknown(*_: object) -> str:
    raise OSError("no such file")
