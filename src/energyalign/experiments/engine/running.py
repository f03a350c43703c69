"""From a request to rows: its data, its run directories, and one experiment after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from energyalign.core.errors import count_of
from energyalign.experiments.engine.request import Planned, RunRequest
from energyalign.experiments.engine.row import Row
from energyalign.experiments.train.reporter import Reporter

if TYPE_CHECKING:
    from lightning_fabric import Fabric

ReporterOf = Callable[[str, Path | None], Reporter]
"""From the title of a training and a folder for its curves, if it is to have any."""


@dataclass(frozen=True)
class Work:
    """Runs that a request asks for, by run directory, and the data that they share."""

    request: RunRequest
    data: Any
    runs: dict[Path, Planned]

    @classmethod
    def of(cls, request: RunRequest) -> Self:
        """Read the data and plan each training with each seed; or the finished runs of --from."""
        if request.source:
            finished = request.finished()
            return cls(request, request.load_for(finished[0].config), {Path(run.folder): run for run in finished})
        out, data = request.out_folder, request.load()
        runs = {
            out / run.folder / f"seed-{seed}": run._replace(config=replace(run.config, seed=seed))
            for run in request.plan(data)
            for seed in request.seeds
        }
        return cls(request, data, runs)

    @property
    def precision(self) -> str:
        """Of all runs."""
        return next(iter(self.runs.values())).config.precision

    def do(self, *, fabric: Fabric | None, reporter_of: ReporterOf, command: str = "") -> list[Row]:
        """Train what is missing, measure, and return the rows; all runs are checked before the first begins."""
        experiments = {}
        for folder, run in self.runs.items():
            # Behind a finished run, correctors of a long tail may have a stage to train, and none in steps has.
            has_curves = not self.request.source or not run.config.in_steps
            experiments[folder] = self.request.experiment(
                run.config, self.data, fabric=fabric, workers=self.request.workers, command=command,
                reporter=reporter_of(_title(run), folder / self.request.log if has_curves else None),
            )  # fmt: skip
            experiments[folder].check(run.correctors)
        plans = self.request.evidence_plans
        return [
            row
            for folder, each in experiments.items()
            for row in each.run(folder, self.runs[folder].correctors, *plans)
        ]

    def __str__(self) -> str:
        """What is run, and where."""
        configs = [run.config for run in self.runs.values()]
        heads = sorted({config.head for config in configs})
        head = f"{heads[0]} head" if len(heads) == 1 else f"heads {', '.join(heads)}"
        each = " a step" if configs[0].in_steps else ""
        backbones = ", ".join(sorted({config.backbone for config in configs}))
        epochs = count_of(configs[0].recipe.epochs, "epoch")
        if self.request.source:
            where = f"{'run' if len(self.runs) == 1 else 'runs'} in {', '.join(map(str, self.runs))}"
        else:
            where = f"runs in {self.request.out_folder}"
        return f"{configs[0].name}, {backbones}, {head}, {epochs}{each}; {where}"


def _title(run: Planned) -> str:
    config = run.config
    training = run.folder if config.in_steps else f"{config.learner.name} ({config.head})"
    return f"{config.name} {training} seed {config.seed}"
