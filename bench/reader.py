"""`python -m bench.reader HOW PATH`: read a file of logits once for every line on standard input."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from bench.memory import largest_growth
from energyalign import Evidence
from energyalign.files.engines import open_engine
from energyalign.files.shards import open_shards


def _energies(path: Path) -> object:
    shards = open_shards([str(path)])
    with open_engine("local", jobs=None) as engine:
        return Evidence.from_parts(shards.parts(), shards.n_classes, engine=engine).free_energy.values


def _sum(path: Path) -> object:
    return np.load(path, mmap_mode="r").sum()


def main() -> None:
    how, path = {"ours": _energies, "sum": _sum}[sys.argv[1]], Path(sys.argv[2])
    for _ in sys.stdin:
        with largest_growth() as growth:
            start = time.perf_counter()
            how(path)
            seconds = time.perf_counter() - start
        print(json.dumps({"seconds": seconds, "growth": growth.bytes}), flush=True)


if __name__ == "__main__":
    main()
