"""After any failure, a file is either the old one or the complete new one."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import energyalign
from energyalign.core._io.atomic import atomic_write, refuse_unwritable, remove_folder
from energyalign.core.errors import EnergyAlignError


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Write an existing file into an empty folder."""
    path = tmp_path / "shifts.json"
    path.write_text("old")
    return path


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def only_old(path: Path) -> bool:
    return path.read_text() == "old" and os.listdir(path.parent) == [path.name]


def test_a_whole_file_replaces_the_old_one(old: Path) -> None:
    with atomic_write(old) as stream:
        stream.write("new ")
        assert old.read_text() == "old"  # until it is whole
        stream.write("text, 类别 é")
    assert old.read_bytes() == "new text, 类别 é".encode()
    assert os.listdir(old.parent) == [old.name]


def test_bytes(tmp_path: Path) -> None:
    with atomic_write(str(tmp_path / "a.npy"), "wb") as stream:
        stream.write(b"\x93\x00\xff\r\n")
    assert (tmp_path / "a.npy").read_bytes() == b"\x93\x00\xff\r\n"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit, MemoryError])
def test_whatever_is_raised_midway_leaves_the_old_file_alone(old: Path, error: type[BaseException]) -> None:
    def write() -> None:
        with atomic_write(old) as stream:
            stream.write("half")
            stream.flush()
            raise error("midway")

    with pytest.raises(error, match="midway"):
        write()
    assert only_old(old)


def test_a_failure_without_an_old_file_leaves_nothing(tmp_path: Path) -> None:
    def write() -> None:
        with atomic_write(tmp_path / "new") as stream:
            stream.write("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write()
    assert os.listdir(tmp_path) == []


def run(script: str, path: Path, *, expect: int = 0) -> str:
    """Run a script that writes `path` in a separate process."""
    source = str(Path(energyalign.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == expect, done.stderr
    return done.stdout


def test_a_disk_that_takes_no_more(old: Path) -> None:
    # The kernel refuses to write beyond 4 kB, like a full disk in the middle of a write.
    out = run(
        """
import resource, signal, sys
from energyalign.core._io.atomic import atomic_write
from energyalign.core.errors import EnergyAlignError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    with atomic_write(sys.argv[1]) as stream:
        for _ in range(100):
            stream.write("x" * 1000)
except EnergyAlignError as error:
    print(error)
""",
        old,
    )
    assert out.startswith(f"cannot write {old}: File too large. Nothing was changed; check the folder")
    assert only_old(old)


def test_a_process_that_is_killed(old: Path) -> None:
    run(
        """
import os, signal, sys
from energyalign.core._io.atomic import atomic_write
with atomic_write(sys.argv[1]) as stream:
    stream.write("half")
    stream.flush()
    os.kill(os.getpid(), signal.SIGKILL)
""",
        old,
        expect=-9,
    )
    assert old.read_text() == "old"


def test_permissions_follow_the_umask(tmp_path: Path, umask: None) -> None:
    with atomic_write(tmp_path / "a") as stream:
        stream.write("x")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_permissions_of_an_old_file_stay(old: Path, umask: None) -> None:
    for mode in (0o600, 0o666, 0o444):
        old.chmod(mode)
        with atomic_write(old) as stream:
            (temporary,) = {*old.parent.iterdir()} - {old}
            assert stat.S_IMODE(temporary.stat().st_mode) == mode  # before the first byte is in it
            stream.write("new")
        assert stat.S_IMODE(old.stat().st_mode) == mode


def other_group(file: Path) -> int:
    """Give the file another of our groups, and return it."""
    others = [group for group in [*os.getgroups(), *([12345] if os.getuid() == 0 else [])] if group != os.getgid()]
    if not others:
        pytest.skip("this user has one group only")
    os.chown(file, -1, others[0])
    file.chmod(0o640)
    return others[0]


@pytest.mark.skipif(not hasattr(os, "chown"), reason="there are no groups")
def test_the_group_of_an_old_file_stays(old: Path, umask: None) -> None:
    group = other_group(old)
    with atomic_write(old) as stream:
        stream.write("new")
    assert old.stat().st_gid == group
    assert stat.S_IMODE(old.stat().st_mode) == 0o640


@pytest.mark.skipif(not hasattr(os, "chown"), reason="there are no groups")
def test_another_group_does_not_get_the_permissions_of_the_old_one(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    other_group(old)
    monkeypatch.setattr(os, "chown", refuse)
    with atomic_write(old) as stream:
        stream.write("new")
    assert old.read_text() == "new"
    assert stat.S_IMODE(old.stat().st_mode) == 0o600


def test_the_umask_is_never_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # If two threads read the umask by setting it, it can stay 0.
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("the umask is that of all threads"))
    with atomic_write(tmp_path / "a") as stream:
        stream.write("x")


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_a_link(tmp_path: Path, there: bool) -> None:
    store, link, relative = tmp_path / "store", tmp_path / "link.json", tmp_path / "relative.json"
    store.mkdir()
    if there:
        (store / "shifts.json").write_text("old")
    link.symlink_to(store / "shifts.json")
    relative.symlink_to("link.json")
    refuse_unwritable(relative)
    with atomic_write(relative) as stream:
        stream.write("new")
        assert len(list(store.glob(".*.json.part"))) == 1  # on the disk of the target, not of the link
    assert (os.readlink(link), os.readlink(relative)) == (str(store / "shifts.json"), "link.json")
    assert (store / "shifts.json").read_text() == "new"
    assert os.listdir(store) == ["shifts.json"]


def test_a_link_into_a_folder_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone" / "file")
    with pytest.raises(EnergyAlignError, match=r"cannot write .*link: there is no folder .*gone\. Create it first"):
        refuse_unwritable(tmp_path / "link")


@pytest.mark.parametrize("name", ["a" * 250 + ".json", "a." + "b" * 253, "é" * 127])
def test_names_as_long_as_the_system_allows(tmp_path: Path, name: str) -> None:
    for text in ("old", "new"):
        refuse_unwritable(tmp_path / name)
        with atomic_write(tmp_path / name) as stream:
            stream.write(text)
    assert (tmp_path / name).read_text() == "new"
    assert os.listdir(tmp_path) == [name]


def test_a_longer_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / ("a" * 256)
    with pytest.raises(EnergyAlignError, match="File name too long"):
        refuse_unwritable(path)
    with pytest.raises(EnergyAlignError, match="File name too long"), atomic_write(path):
        pytest.fail("there is nothing to write to")


def test_writers_at_the_same_time_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with atomic_write(path) as one:
        one.write("one ")
        with atomic_write(path) as two:
            two.write("two two")
        assert path.read_text() == "two two"
        one.write("one")
    assert path.read_text() == "one one"
    assert os.listdir(tmp_path) == ["a"]


def test_a_missing_folder(tmp_path: Path) -> None:
    path = tmp_path / "none" / "a"
    with pytest.raises(EnergyAlignError, match=r"cannot write .*none/a: No such file or directory"), atomic_write(path):
        pytest.fail("there is nothing to write to")
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_a_file(old: Path) -> None:
    with pytest.raises(EnergyAlignError, match="Not a directory"), atomic_write(old / "a"):
        pytest.fail("there is nothing to write to")
    assert only_old(old)


def test_a_directory_as_the_file(tmp_path: Path) -> None:
    with pytest.raises(EnergyAlignError, match="is a directory: give the name of a file"), atomic_write(tmp_path):
        pytest.fail("there is nothing to write to")


def test_a_pipe_or_device_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(EnergyAlignError, match="is not a regular file"), atomic_write(pipe):
        pytest.fail("there is nothing to write to")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    with pytest.raises(EnergyAlignError, match="is not a regular file"):
        refuse_unwritable("/dev/null")


class TestBeforeTheWork:
    def test_what_can_be_written_is_let_through_and_not_touched(self, old: Path) -> None:
        refuse_unwritable(old)
        refuse_unwritable(old.parent / "new")
        assert only_old(old)

    def test_what_cannot_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(EnergyAlignError, match="is a directory"):
            refuse_unwritable(tmp_path)
        with pytest.raises(EnergyAlignError, match=r"there is no folder .*none\. Create it first"):
            refuse_unwritable(tmp_path / "none" / "a")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
    def test_a_folder_without_permission(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o500)
        with pytest.raises(EnergyAlignError, match="is not writable"):
            refuse_unwritable(tmp_path / "a")
        tmp_path.chmod(0o700)


def test_a_folder_goes_at_once_or_leaves_a_leftover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "stage").mkdir()
    (tmp_path / "stage" / "file").write_text("x")
    monkeypatch.setattr("energyalign.core._io.atomic.os.unlink", killed)
    with pytest.raises(KeyboardInterrupt):
        remove_folder(tmp_path / "stage")
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == [".stage.part"]
    (tmp_path / "stage").mkdir()
    remove_folder(tmp_path / "stage")
    assert list(tmp_path.iterdir()) == []


def test_text_with_the_name_of_a_file_that_is_no_text(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "commands.txt") as stream:
        stream.write("--out b\u00e4\udcff")
    assert (tmp_path / "commands.txt").read_text("utf-8") == "--out b\u00e4\\udcff"
