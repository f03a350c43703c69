"""A fast stand-in for a run of a sweep, which fails on request.

``python -m sweep_program CONFIG FOLDER WHAT`` creates a run directory and then does WHAT: ``measure``, ``fail``,
``fail-silently``, ``find-it-in-use`` (in the first attempt), ``be-killed`` (in the first attempt; the second one
measures), ``always-be-killed``, or ``wait`` for a stop signal and record it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from made_row import made_row

from energyalign.experiments.train.locking import HeldFolder
from energyalign.experiments.train.run_directory import RunDirectory


def main() -> int:
    config, folder, what = json.loads(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    with (folder / "tries.txt").open("a") as stream:
        stream.write(f"{os.getpid()} {os.environ.get('OMP_NUM_THREADS')}\n")
    tries = len((folder / "tries.txt").read_text().splitlines())
    if what == "fail":
        print("energyalign: error: there is no such thing.", file=sys.stderr)
        return 2
    if what == "fail-silently":
        return 1
    if what == "find-it-in-use" and tries == 1:
        print("energyalign: error: it is in use by another process.", file=sys.stderr)
        return 75
    if what == "always-be-killed" or (what == "be-killed" and tries == 1):
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "wait":
        _wait(folder)
    steps = range(1, config.get("n_steps", 1) + 1)
    RunDirectory(folder).write_rows([made_row(config, corrector="raw", step=step).to_json() for step in steps])
    return 0


def _wait(folder: Path) -> None:
    held = HeldFolder(folder)

    def saved(number: int, _frame: FrameType | None) -> None:
        ((held.find() or folder) / "saved.txt").write_text(signal.Signals(number).name)
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, saved)
    (folder / "waits.txt").write_text("")
    for _ in range(600):
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
