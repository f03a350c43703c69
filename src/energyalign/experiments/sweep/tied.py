"""Runs a module as ``python -m`` does, but never longer than the process that started it.

A run that outlived its sweep would hold the lock of its run directory against the one that comes to complete it.
Standard input is a pipe that the starting process keeps open: it ends when that process does, however it does.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading


def _die_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os.killpg(0, signal.SIGKILL)  # with the processes that share the run; it leads a group of its own


def main() -> None:
    """``python -m energyalign.experiments.sweep.tied MODULE ARGUMENT...``"""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
