"""Time of the command line for tasks without training."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bench.command import energyalign, python
from bench.line import Line, at_most
from bench.measure import alternate


def lines() -> Iterator[Line]:
    """Compare `--help`, a listing, and a table of a stored run with importing NumPy."""
    with tempfile.TemporaryDirectory() as folder:
        _store_run(Path(folder) / "run")
        commands = {
            "cold start": (["--help"], "energyalign --help", 2.0),
            "listing": (["list", "methods"], "energyalign list methods", 3.0),
            "table": (["table", "longtail", folder], "energyalign table longtail, one run", 10.0),
        }
        ours = {name: energyalign(*words) for name, (words, _, _) in commands.items()}
        seconds = alternate({**ours, "numpy": python("-c", "import numpy")}, rounds=21)
    for name, (_, workload, goal) in commands.items():
        yield Line.of(
            name, workload, 'python -c "import numpy"', at_most(goal), ours=seconds[name], theirs=seconds["numpy"]
        )


def _store_run(folder: Path) -> None:
    """Store a short run on digits."""
    from energyalign.experiments.longtail.config import LongTailConfig
    from energyalign.experiments.longtail.experiment import LongTailExperiment
    from energyalign.experiments.longtail.presets import PRESETS

    preset = PRESETS["digits-lt-50"]
    config = LongTailConfig.from_preset(replace(preset, recipe=preset.recipe.lasting(1)), seed=0)
    LongTailExperiment(config).run(folder, ["raw", "logit-adjustment"])
