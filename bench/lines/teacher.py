"""Cost of a teacher: a distillation step compared with its forward passes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

from bench.cifar_training import BATCH
from bench.later_step import LaterStep
from bench.line import Line, at_most
from bench.measure import Work, alternate
from energyalign.cli.process import keep_freed_memory

BATCHES = 6  # batches before the end of an epoch, which a real step reaches after 55


def lines() -> Iterator[Line]:
    """Time whole batches of the training loop, with loader, augmentation, optimiser and checkpoint."""
    keep_freed_memory()  # as the commands do
    with tempfile.TemporaryDirectory() as folder:
        ours = LaterStep(Path(folder), BATCHES * BATCH // 4, BATCHES * BATCH * 3 // 4)
        images, student, teacher = ours.batch(), ours.student, ours.teacher

        def student_forward() -> None:
            student.train()
            for _ in range(BATCHES):
                student(images)

        def teacher_forward() -> None:
            with torch.no_grad():
                for _ in range(BATCHES):
                    teacher(images)

        seconds = alternate(
            {"ours": Work(ours.learn, ours.prepare), "student": student_forward, "teacher": teacher_forward}
        )
    passes = [3 * own + other for own, other in zip(seconds["student"], seconds["teacher"], strict=True)]
    yield Line.of(
        "teacher", f"distillation step, ResNet-32, batch {BATCH}",
        "3 forward passes of the student in training mode and 1 of the teacher", at_most(1.1),
        ours=seconds["ours"], theirs=passes,
    )  # fmt: skip
