"""Images per second of a later incremental step, compared with avalanche-lib in a virtual environment of its own."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from bench.cifar_training import BATCH
from bench.later_step import NEW, OLD, LaterStep
from bench.line import Line, at_least, at_most
from bench.measure import Work, alternate
from energyalign.cli.process import keep_freed_memory

_ROOT = Path(__file__).parents[2]
PYTHON = _ROOT / ".venv-avalanche" / "bin" / "python"
EXEMPLARS, IMAGES, PART = 2_000, 5_000, 5


def full_lines() -> Iterator[Line]:
    """Time a fifth of an epoch per round, with exemplars and new images in the same proportion."""
    keep_freed_memory()  # as the commands do
    n_exemplars, n_new = EXEMPLARS // PART, IMAGES // PART
    with tempfile.TemporaryDirectory() as folder, Peer(n_exemplars, n_new) as peer:
        ours = LaterStep(Path(folder), n_exemplars, n_new)
        convolutions = Convolutions(ours, n_batches=(n_exemplars + n_new) / BATCH)
        seconds = alternate(
            {"ours": Work(ours.learn, ours.prepare), "avalanche": peer.epoch, "convolutions": convolutions.run}
        )
    about = peer.about
    if about["images"] != n_exemplars + n_new:
        raise RuntimeError(f"avalanche trained on {about['images']} images, not on {n_exemplars + n_new}.")
    n_parameters = sum(values.numel() for values in ours.student.backbone.parameters())
    if about["parameters"] != n_parameters:
        raise RuntimeError(f"avalanche's network has {about['parameters']} parameters, ours {n_parameters}.")
    if about["torch"] != torch.__version__:
        raise RuntimeError(f"avalanche has torch {about['torch']}, ours is {torch.__version__}: rm -r .venv-avalanche.")
    workload = (
        f"ResNet-32, {EXEMPLARS:,} exemplars + {IMAGES:,} new images (a fifth of each), distillation, batch {BATCH}"
    )
    against = f"avalanche-lib {about['avalanche']} (Replay + LwF, IcarlNet)"
    yield Line.of(
        "incremental step", workload, against, at_least(2), ours=seconds["ours"], theirs=seconds["avalanche"],
        limit="Incremental step", floor=1.5,
    )  # fmt: skip
    yield Line.of(
        "incremental step", workload, "the convolutions of student and teacher alone", at_most(1.15),
        ours=seconds["ours"], theirs=[convolutions.scale * value for value in seconds["convolutions"]],
        limit="Incremental step", floor=1.3,
    )  # fmt: skip


class Convolutions:
    """The convolutions of a step: forward and backward for the student, forward for the teacher."""

    def __init__(self, step: LaterStep, n_batches: float) -> None:
        self._n_batches = round(n_batches)
        self.scale = n_batches / self._n_batches
        images = step.batch()
        self._taught = self._calls(step.teacher, images)
        self._learned = self._calls(step.student.train(), images)
        for number, (_, seen) in enumerate(self._learned):
            seen.requires_grad_(number > 0)  # the gradient with respect to the images is not needed
        self._slopes = [torch.randn_like(convolution(seen)) for convolution, seen in self._learned]

    def run(self) -> None:
        """Compute them for each batch of the epoch."""
        for _ in range(self._n_batches):
            with torch.no_grad():
                for convolution, seen in self._taught:
                    convolution(seen)
            for (convolution, seen), slope in zip(self._learned, self._slopes, strict=True):
                wanted = [convolution.weight, seen] if seen.requires_grad else [convolution.weight]
                torch.autograd.grad(convolution(seen), wanted, slope)

    @staticmethod
    def _calls(network: torch.nn.Module, images: torch.Tensor) -> list[tuple[torch.nn.Module, torch.Tensor]]:
        """Return every convolution with its input."""
        calls: list[tuple[torch.nn.Module, torch.Tensor]] = []
        hooks = [
            module.register_forward_pre_hook(lambda module, seen: calls.append((module, seen[0].detach().clone())))
            for module in network.modules()
            if isinstance(module, torch.nn.Conv2d)
        ]
        with torch.no_grad():
            network(images)
        for hook in hooks:
            hook.remove()
        return calls


class Peer:
    """avalanche in another process, which is idle between requests."""

    def __init__(self, n_exemplars: int, n_new: int) -> None:
        script = _ROOT / "bench" / "peers" / "avalanche_step.py"
        numbers = (torch.get_num_threads(), n_exemplars, n_new, BATCH, OLD, NEW)
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [PYTHON, script, *map(str, numbers)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._complaints, text=True, bufsize=1,
        )  # fmt: skip
        self.about: dict[str, Any] = self._answer()

    def epoch(self) -> None:
        """Train an epoch."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self.about |= self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._complaints.seek(0)
            raise RuntimeError(f"bench/peers/avalanche_step.py ended:\n{self._complaints.read()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_exception: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._complaints.close()
