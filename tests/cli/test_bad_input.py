"""Every bad input gives a one-line error that names it, exits with code 2, and changes no file."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

GOOD = np.random.default_rng(0).normal(size=(20, 3))


def save(name, array, **options):
    np.save(name, array, **options)


def with_value(value):
    bad = GOOD.copy()
    bad[7, 1] = value
    return bad


def truncated():
    save("bad.npy", GOOD)
    with open("bad.npy", "r+b") as stream:
        stream.truncate(os.path.getsize("bad.npy") - 9)


def write(name, text):
    with open(name, "w", encoding="utf-8") as stream:
        stream.write(text)


# problem -> how to create it, the arguments, and the text that the message must contain
CASES = {
    "NaN logit": (lambda: save("bad.npy", with_value(np.nan)), "fit bad.npy", "NaN at sample 7, class 1"),
    "+inf logit": (lambda: save("bad.npy", with_value(np.inf)), "fit bad.npy", "+inf at sample 7, class 1"),
    "one number": (lambda: save("bad.npy", GOOD[0, 0]), "fit bad.npy", "bad.npy"),
    "3-D without a token": (lambda: save("bad.npy", GOOD[:, None][:, :0]), "fit bad.npy", "bad.npy"),
    "integer logits": (lambda: save("bad.npy", GOOD.astype(int)), "fit bad.npy", "int64"),
    "boolean logits": (lambda: save("bad.npy", GOOD > 0), "fit bad.npy", "bool"),
    "complex logits": (lambda: save("bad.npy", GOOD + 1j), "fit bad.npy", "complex"),
    "object logits": (lambda: save("bad.npy", GOOD.astype(object), allow_pickle=True), "fit bad.npy", "bad.npy"),
    "no samples": (lambda: save("bad.npy", GOOD[:0]), "fit bad.npy", "bad.npy"),
    "no class": (lambda: save("bad.npy", GOOD[:, :0]), "fit bad.npy", "bad.npy"),
    "truncated .npy": (truncated, "fit bad.npy", "bad.npy"),
    "not an array": (lambda: write("bad.npy", "hello"), "fit bad.npy", "bad.npy"),
    "unknown format": (lambda: write("bad.xyz", "hello"), "fit bad.xyz", "bad.xyz"),
    "missing file": (lambda: None, "fit missing.npy", "missing.npy"),
    "unreadable file": (lambda: os.symlink("loop.npy", "loop.npy"), "fit loop.npy", "loop.npy"),
    "directory as input": (lambda: os.mkdir("folder"), "fit folder", "folder"),
    "shards of other widths": (lambda: save("bad.npy", GOOD[:, :2]), "fit good.npy bad.npy", "bad.npy"),
    "ragged csv": (lambda: write("bad.csv", "1.0,2.0\n3.0\n"), "fit bad.csv", "bad.csv"),
    "words in csv": (lambda: write("bad.csv", "a,b\n1.0,x\n"), "fit bad.csv", "bad.csv"),
    "label out of range": (
        lambda: save("l.npy", np.full(20, 3)), "fit good.npy --labels l.npy", "label 3 of sample 0 is out of range"
    ),
    "negative label": (lambda: save("l.npy", np.full(20, -1)), "fit good.npy --labels l.npy", "label -1"),
    "too few labels": (lambda: save("l.npy", np.zeros(19, int)), "fit good.npy --labels l.npy", "(20,)"),
    "fractional labels": (lambda: save("l.npy", np.full(20, 0.5)), "fit good.npy --labels l.npy", "l.npy"),
    "class without labels": (
        lambda: save("l.npy", np.arange(20) % 2), "fit good.npy --labels l.npy --estimator lse --clusters per-class",
        "no evidence for class 2",
    ),
    "zero count": (lambda: write("c.json", "[5, 0, 2]"), "fit good.npy --counts c.json", "class 1"),
    "negative count": (lambda: write("c.json", "[5, -1, 2]"), "fit good.npy --counts c.json", "c.json"),
    "too many counts": (lambda: write("c.json", "[5, 4, 3, 2]"), "fit good.npy --counts c.json", "(3,)"),
    "counts that are not JSON": (lambda: write("c.json", "[5, 4,"), "fit good.npy --counts c.json", "c.json"),
    "counts of a wrong kind": (lambda: write("c.json", '"many"'), "fit good.npy --counts c.json", "c.json"),
    "NaN count": (lambda: write("c.json", "[5, NaN, 2]"), "fit good.npy --counts c.json", "c.json"),
    "prior without counts": (lambda: None, "fit good.npy --estimator prior", "give counts"),
    "monotone without counts": (lambda: None, "fit good.npy --clusters monotone", "give counts"),
    "more clusters than counts": (
        lambda: write("c.json", "[5, 4, 3]"), "fit good.npy --counts c.json --clusters 4", "must be in 1..3"
    ),
    "unknown clusters": (lambda: None, "fit good.npy --clusters many", "'many'"),
    "clusters with a gap": (lambda: write("g.json", "[0, 2, 2]"), "fit good.npy --clusters g.json", "without gaps"),
    "clusters of other classes": (lambda: write("g.json", "[0, 1]"), "fit good.npy --clusters g.json", "3, got 2"),
    "all classes old": (lambda: None, "fit good.npy --clusters old:3", "some, but not all"),
    "unknown estimator": (lambda: None, "fit good.npy --estimator best", "'best'"),
    "infinite tau": (
        lambda: write("c.json", "[5, 4, 3]"), "fit good.npy --counts c.json --estimator prior --tau inf", "tau"
    ),
    "zero in target prior": (lambda: write("t.json", "[1, 0, 0]"), "fit good.npy --target-prior t.json", "positive"),
    "target prior of other length": (lambda: write("t.json", "[1, 1]"), "fit good.npy --target-prior t.json", "(3,)"),
    "two targets": (
        lambda: write("t.json", "[1, 1, 1]"), "fit good.npy --target-prior t.json --target-logits good.npy", "not both"
    ),
    "target logits of other width": (
        lambda: save("t.npy", GOOD[:, :2]), "fit good.npy --estimator lse --target-logits t.npy", "2 class columns"
    ),
    "directory as output": (lambda: os.mkdir("folder"), "fit good.npy --out folder", "folder is a directory"),
    "output in a missing folder": (lambda: None, "fit good.npy --out nowhere/s.json", "nowhere"),
    "shifts that are not JSON": (
        lambda: write("s.json", "{"), "apply good.npy --shifts s.json --out o.npy", "s.json: not valid JSON"
    ),
    "shifts of another kind": (
        lambda: write("s.json", "{}"), "apply good.npy --shifts s.json --out o.npy", "not a file of shifts"
    ),
    "missing shifts": (lambda: None, "apply good.npy --shifts none.json --out o.npy", "none.json"),
    "logits that do not fit the shifts": (
        lambda: save("bad.npy", GOOD[:, :2]), "apply bad.npy --shifts shifts.json --out o.npy", "2 class columns"
    ),
    "NaN to correct": (
        lambda: save("bad.npy", with_value(np.nan)), "apply bad.npy --shifts shifts.json --out shifts.npy", "NaN"
    ),
    "unknown output format": (lambda: None, "apply good.npy --shifts shifts.json --out o.xyz", "o.xyz"),
    "negative seed": (lambda: None, "demo --seed -1", "must be >= 0, got -1"),
    "file as demo folder": (lambda: write("taken", ""), "demo --out taken", "taken"),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    save("good.npy", GOOD)
    run("fit", "good.npy", "--estimator", "lse", "--clusters", "per-class", "--quiet", "--out", "shifts.json")
    return tmp_path


@pytest.mark.parametrize("case", CASES)
def test_one_clear_error_and_nothing_touched(folder, run, files_in, case):
    make, command, named = CASES[case]
    make()
    before = files_in(folder)
    code, out, err = run(*command.split())
    assert code == 2
    assert out == ""
    assert err.startswith("energyalign: error: ")
    assert err.count("\n") == 1
    assert named in err
    assert "Traceback" not in err
    assert files_in(folder) == before


@pytest.mark.parametrize(
    "command", ["fit", "fit x.npy --no-such-option", "frobnicate", "list nothing", "apply x.npy", ""]
)
def test_wrong_usage_exits_with_2_and_shows_the_usage(run, command, capsys):
    with pytest.raises(SystemExit) as exit_info:
        run(*command.split())
    assert exit_info.value.code == 2
    assert "usage: energyalign" in capsys.readouterr().err


def test_a_full_disk_leaves_the_old_file(folder, files_in):
    """Limit the file size in the kernel, so that the write itself fails."""
    save("big.npy", np.zeros((200_000, 3)))
    np.save("out.npy", np.ones(3))
    before = files_in(folder)
    done = subprocess.run(
        [sys.executable, "-c", "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
         "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000,) * 2); from energyalign.cli.main import main;"
         "sys.exit(main('apply big.npy --shifts shifts.json --out out.npy'.split()))"],
        capture_output=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2
    assert b"out.npy" in done.stderr
    assert files_in(folder) == before


def reads_on(pid):
    """Return whether the command has read more than its imports: a Ctrl-C during an import may be lost."""
    return int(Path(f"/proc/{pid}/io").read_text().split()[1]) > 400_000_000


def test_interrupting_leaves_nothing_half_written(folder):
    with open("large.npy", "wb") as stream:
        header = {"descr": "<f4", "fortran_order": False, "shape": (40_000_000, 10)}
        np.lib.format.write_array_header_1_0(stream, header)
        stream.truncate(stream.tell() + 40_000_000 * 40)  # sparse: zeros that take no room
    before = set(os.listdir())
    command = ["fit", "large.npy", "--estimator", "marginal", "--out", "s.json"]
    # Jobs started in the background, such as some test suites, ignore Ctrl-C by default.
    start = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    start += "from energyalign.cli.main import main; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen([sys.executable, "-c", start, *command], stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    while not reads_on(process.pid):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode in (130, -signal.SIGINT)  # a shell calls both 130
    assert b"interrupted" in err
    assert b"Traceback" not in err
    assert set(os.listdir()) == before


def test_a_reader_that_goes_away_is_no_traceback(folder):
    save("big.npy", np.zeros((2_000_000, 3)))
    process = subprocess.Popen(
        [sys.executable, "-m", "energyalign.cli.main", "apply", "big.npy", "--shifts", "shifts.json", "--out", "-"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    process.stdout.read(10)
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    process.wait(timeout=120)
    assert b"Traceback" not in err
