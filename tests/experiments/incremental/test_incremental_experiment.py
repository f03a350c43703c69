"""Algorithm 1 end to end on digits: results, data access of each step, the network it hands on, and resuming."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from incremental_run import StopAt, bytes_of_steps, digits_config, few, run_digits
from safetensors.numpy import load_file

from energyalign import EnergyAlignError
from energyalign.core._io.signals import Interrupted
from energyalign.core.arrays import Ints
from energyalign.core.metrics import ClassScores
from energyalign.experiments.correctors import CORRECTORS
from energyalign.experiments.data.images import MemoryImages
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.row import Row
from energyalign.experiments.engine.stored import find_runs
from energyalign.experiments.incremental.experiment import IncrementalExperiment
from energyalign.experiments.incremental.learners import find_learner
from energyalign.experiments.incremental.learners.distill import BiC, Distill
from energyalign.experiments.incremental.methods import METHODS
from energyalign.experiments.incremental.stream import load_stream
from energyalign.experiments.nets.corrected_heads import ShiftedHead
from energyalign.experiments.train.reporter import Narrator
from energyalign.experiments.train.run_directory import RunDirectory
from energyalign.experiments.train.tensor_file import load_arrays

ALL = ("raw", "logit-adjustment", "ea", "ea-marginal")
FEW = 30  # training images of each class, for tests in which accuracy does not matter


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Row]]:
    """Run energy aligning as in the paper, for eight epochs per step."""
    folder = tmp_path_factory.mktemp("runs") / "ea"
    return folder, run_digits(folder, config(epochs=8), *ALL)


def config(learner: str = "distill", *, epochs: int = 2, corrector: str = "ea", **others: Any) -> Any:
    return digits_config(find_learner(learner), **({"head": "cosine"} | others), epochs=epochs, corrector=corrector)


def last(rows: list[Row], corrector: str) -> Row:
    return next(row for row in rows if (row.step, row.corrector) == (5, corrector))


def test_new_classes_swallow_old_ones_and_energy_aligning_undoes_it(finished: tuple[Path, list[Row]]) -> None:
    raw, aligned = (last(finished[1], name) for name in ("raw", "ea"))
    assert raw.new > raw.old + 0.2
    assert aligned.overall > raw.overall + 0.1
    assert abs(aligned.new - aligned.old) < raw.new - raw.old
    (run,) = find_runs([finished[0]])
    predicted = [np.bincount(run.predictions(row), minlength=10) for row in (raw, aligned)]
    assert predicted[0][8:].sum() > 2 * 100  # number of test images: two classes with 50 each
    assert predicted[1][8:].sum() < predicted[0][8:].sum()


def test_rows_say_what_is_in_the_stored_logits(finished: tuple[Path, list[Row]]) -> None:
    folder, rows = finished
    assert len(rows) == 5 * len(ALL)
    for row in rows:
        stored = load_arrays(folder / f"step-{row.step:02d}" / "test_logits.safetensors")
        logits, labels = stored["logits"], stored["labels"]
        assert logits.shape == (50 * row.n_new + 50 * row.n_old, row.n_old + row.n_new)
        if row.shifts is not None:
            logits = logits + np.array(row.shifts, dtype=np.float32)
        scores = ClassScores(logits.shape[1]).update(logits, labels)
        assert row.overall == pytest.approx(scores.accuracy)
        assert row.top5 == pytest.approx(scores.top_k_accuracy)
        assert row.per_class == pytest.approx(scores.per_class.tolist())
        right = logits.argmax(axis=1) == labels
        assert row.new == pytest.approx(right[labels >= row.n_old].mean())
        assert row.groups == pytest.approx([right[labels // 2 == step].mean() for step in range(row.step)])
        (run,) = find_runs([folder])
        np.testing.assert_array_equal(run.predictions(row), logits.argmax(axis=1))


def test_the_order_is_in_every_row(finished: tuple[Path, list[Row]]) -> None:
    for row in finished[1]:
        assert row.order == tuple(range(10))


def test_one_shift_of_all_new_classes_and_none_of_old_ones(finished: tuple[Path, list[Row]]) -> None:
    for row in finished[1]:
        if row.corrector in ("ea", "ea-marginal") and row.step > 1:
            assert row.shifts[: row.n_old] == (0.0,) * row.n_old
            assert len(set(row.shifts[row.n_old :])) == 1
        if row.step == 1:
            assert row.shifts is None
            assert row.old is None


def test_the_shift_is_that_of_the_paper(finished: tuple[Path, list[Row]]) -> None:
    """The mean energy of old classes minus the mean of new ones, from the energies of the row."""
    row = last(finished[1], "ea")
    energies = np.array(row.energies_before)
    assert row.shifts[-1] == pytest.approx(energies[:8].mean() - energies[8:].mean())


class Spy(Distill):
    """Records the start of each step."""

    seen: list[tuple[Any, Any]] = []  # noqa: RUF012 - shared on purpose

    def learn(self, step: Any, network: Any, teacher: Any) -> None:
        Spy.seen.append((network.head.weight.detach().clone(), teacher))
        super().learn(step, network, teacher)


def test_the_shift_reaches_the_teacher_and_not_the_student(tmp_path: Path) -> None:
    Spy.seen.clear()
    settings = digits_config(Spy(), epochs=1, corrector="ea", head="cosine", n_steps=3)
    rows = run_digits(tmp_path / "run", settings, "ea", per_class=FEW)
    assert Spy.seen[0][1] is None
    for number in (2, 3):
        student, teacher = Spy.seen[number - 1]
        before = load_file(tmp_path / "run" / f"step-{number - 1:02d}" / "network.safetensors")
        n_old = before["head.weight"].shape[0]
        assert np.array_equal(student[:n_old].numpy(), before["head.weight"])
        assert not teacher.training
        assert not any(parameter.requires_grad for parameter in teacher.parameters())
        shifts = next(row.shifts for row in rows if row.step == number - 1)
        if shifts is None:  # a dummy one after the first step
            assert not isinstance(teacher.head, ShiftedHead)
        else:
            # Only for the newest classes: nothing accumulates from earlier steps.
            assert teacher.head.shifts.tolist() == pytest.approx(shifts)
            assert np.array_equal(teacher.head.head.weight.numpy(), before["head.weight"])


class Watched(MemoryImages):
    """Records which images are selected from it."""

    taken: list[set[int]] = []  # noqa: RUF012 - shared by all parts

    def subset(self, indices: Ints | Any) -> Any:
        Watched.taken.append(set(np.asarray(indices).tolist()))
        return MemoryImages(**{name: getattr(self, name) for name in self.__dataclass_fields__}).subset(indices)

    def read(self, index: int) -> torch.Tensor:  # noqa: ARG002
        raise AssertionError("images are read from a part of the set only")


@pytest.mark.parametrize(("learner", "memory", "correctors"), sorted(
    {(m.learner, m.memory, tuple(sorted({"raw", m.corrector}))) for m in METHODS.values() if m.learner != "joint"}
))  # fmt: skip
def test_nothing_of_past_classes_is_seen_beyond_the_memory(
    tmp_path: Path, learner: str, memory: str, correctors: tuple[str, ...]
) -> None:
    """From step b on, all training images from the stream belong to new classes or were in the memory."""
    acting = next((name for name in correctors if name != "raw"), "raw")
    settings = config(learner, epochs=1, corrector=acting, memory=memory, head="linear", n_steps=3)
    stream = few(load_stream(settings), FEW)
    fields = {name: getattr(stream.train, name) for name in stream.train.__dataclass_fields__}
    experiment = IncrementalExperiment(settings, stream=replace(stream, train=Watched(**fields)))
    Watched.taken.clear()
    experiment.run(tmp_path / "run", correctors)
    allowed: set[int] = set()
    kept: list[set[int]] = []
    for number in (1, 2, 3):
        state = json.loads((tmp_path / "run" / f"step-{number:02d}" / "state.json").read_text())
        kept.append({i for lists in state["memory"].values() for of_class in lists for i in of_class})
    everything = set(range(len(stream.train)))
    current = 0
    for taken in Watched.taken:
        if taken == everything:
            continue  # before the first step: the manifest's digest and the check that all files can be read
        # A step begins when its new images are selected for the first time.
        if current < 3 and taken & set(stream.new_indices(current + 1).tolist()):
            current += 1
            allowed = set(stream.new_indices(current).tolist()) | (kept[current - 2] if current > 1 else set())
        assert taken <= allowed, f"step {current} took images it may not see"
    assert current == 3
    limit = 0 if memory == "none" else 40
    assert all(len(one) <= limit for one in kept)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    run_digits(folder, config(), *ALL, per_class=FEW)
    return bytes_of_steps(folder)


@pytest.mark.parametrize("where", [("step 1 of 5", 1, 1), ("step 3 of 5", 2, 1), ("step 5 of 5", 2, 3)])
def test_a_run_that_was_stopped_inside_a_step_ends_the_same(
    tmp_path: Path, uninterrupted: dict[str, bytes], where: tuple[str, int, int]
) -> None:
    stop = StopAt(where[0], epoch=where[1], batch=where[2])
    with pytest.raises(Interrupted):
        run_digits(tmp_path / "run", config(), *ALL, reporter=stop, per_class=FEW)
    run_digits(tmp_path / "run", config(), *ALL, per_class=FEW)
    assert bytes_of_steps(tmp_path / "run") == uninterrupted


def test_a_finished_run_is_not_measured_again(
    finished: tuple[Path, list[Row]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, rows = finished

    def refuse(*_arguments: Any, **_named: Any) -> Iterator[Any]:
        raise AssertionError("there is nothing to compute")

    monkeypatch.setattr("energyalign.experiments.engine.trained.outputs", refuse)
    monkeypatch.setattr("energyalign.experiments.engine.trained.drawn_outputs", refuse)
    assert run_digits(folder, config(epochs=8), *ALL) == rows


def test_correctors_that_come_later_are_measured_on_the_same_networks(tmp_path: Path) -> None:
    first = run_digits(tmp_path / "run", config("fine-tune", corrector="raw", head="linear"), "raw", per_class=FEW)
    before = (tmp_path / "run" / "step-02" / "network.safetensors").read_bytes()
    later = run_digits(
        tmp_path / "run", config("fine-tune", corrector="raw", head="linear"), "raw", "logit-adjustment", per_class=FEW
    )
    assert (tmp_path / "run" / "step-02" / "network.safetensors").read_bytes() == before
    assert [row for row in later if row.corrector == "raw"] == first
    assert len(later) == 2 * len(first)


def test_several_kinds_of_evidence_are_rows_of_their_own(tmp_path: Path) -> None:
    settings = config("fine-tune", epochs=1, corrector="raw", n_steps=2)
    experiment = IncrementalExperiment(settings)
    rows = experiment.run(tmp_path / "run", ["raw", "ea"], EvidencePlan(5, "none"), EvidencePlan(6, "one"))
    assert [(row.step, row.corrector, row.evidence and row.evidence.per_class) for row in rows] == [
        (step, *of_step) for step in (1, 2) for of_step in (("raw", None), ("ea", 5), ("ea", 6))
    ]
    (run,) = find_runs([tmp_path / "run"])
    assert len(run.predictions(rows[-1])) == 500


def test_a_damaged_network_is_refused_with_a_remedy(tmp_path: Path) -> None:
    settings = config(epochs=1, n_steps=2)
    run_digits(tmp_path / "run", settings, "raw", per_class=FEW)
    path = tmp_path / "run" / "step-01" / "network.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(EnergyAlignError, match=r"step-01/network.safetensors is damaged\): remove .*step-01"):
        run_digits(tmp_path / "run", settings, "raw", per_class=FEW)


def test_a_damaged_memory_is_refused_with_a_remedy(tmp_path: Path) -> None:
    """Another digit in the index of an exemplar would be another image."""
    settings = config(epochs=1, n_steps=2)
    run_digits(tmp_path / "run", settings, "raw", per_class=FEW)
    path = tmp_path / "run" / "step-01" / "state.json"
    state = json.loads(path.read_text())
    state["memory"]["exemplars"][0][0] += 1
    path.write_text(json.dumps(state))
    with pytest.raises(EnergyAlignError, match=r"step-01/state\.json is damaged, or of a run with other settings: rem"):
        run_digits(tmp_path / "run", settings, "raw", per_class=FEW)


def test_a_step_that_is_gone_before_a_later_one_is_missed(tmp_path: Path) -> None:
    settings = config(epochs=1, n_steps=2)
    run_digits(tmp_path / "run", settings, "raw", per_class=FEW)
    (tmp_path / "run" / "step-01" / "state.json").unlink()
    with pytest.raises(EnergyAlignError, match=r"step-01/state\.json is missing, though step 2 was trained after it"):
        run_digits(tmp_path / "run", settings, "raw", per_class=FEW)


def test_damaged_logits_are_told_and_measured_again(tmp_path: Path) -> None:
    settings = config(epochs=1, n_steps=2)
    run_digits(tmp_path / "run", settings, "raw", per_class=FEW)
    before = bytes_of_steps(tmp_path / "run")
    path = tmp_path / "run" / "step-01" / "test_logits.safetensors"
    path.write_bytes(path.read_bytes()[:-4] + b"\x00\x00\x80\x3f")
    stream = io.StringIO()
    run_digits(tmp_path / "run", settings, "raw", per_class=FEW, reporter=Narrator("run", stream=stream))
    assert f"Measuring step 1 again: {path} is damaged" in stream.getvalue()
    assert bytes_of_steps(tmp_path / "run") == before


def test_checkpoints_are_gone_when_a_step_is_done(finished: tuple[Path, list[Row]]) -> None:
    assert not list(finished[0].rglob("checkpoints"))


def test_a_corrector_that_needs_held_out_images_needs_a_run_that_has_them(tmp_path: Path) -> None:
    demanding = [name for name, entry in CORRECTORS.items() if entry.corrector.held_out]
    for name in demanding:
        with pytest.raises(EnergyAlignError, match="held out from training"):
            run_digits(tmp_path / "run", config(epochs=1), name, per_class=FEW)
    assert not (tmp_path / "run").exists()


def test_energy_aligning_without_memory_is_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(EnergyAlignError, match="keeps no memory here: give --memory random"):
        run_digits(tmp_path / "run", config(epochs=1, memory="none"), "raw", per_class=FEW)
    assert not (tmp_path / "run").exists()


def test_a_prior_without_memory_is_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(EnergyAlignError, match="keeps no memory here: give --memory random"):
        run_digits(
            tmp_path / "run",
            config("lwf", epochs=1, memory="none", corrector="raw"),
            "raw",
            "logit-adjustment",
            per_class=FEW,
        )
    assert not (tmp_path / "run").exists()


def test_steps_that_were_removed_come_back_with_all_their_files(tmp_path: Path) -> None:
    """Following the advice of the error about a damaged file."""
    settings = config(epochs=1, n_steps=3)
    run_digits(tmp_path / "run", settings, "raw", "ea", per_class=FEW)
    before = bytes_of_steps(tmp_path / "run")
    for number in (2, 3):
        shutil.rmtree(tmp_path / "run" / f"step-{number:02d}")
    run_digits(tmp_path / "run", settings, "raw", "ea", per_class=FEW)
    assert bytes_of_steps(tmp_path / "run") == before


def test_a_row_of_another_network_is_not_taken_for_one_of_this(tmp_path: Path) -> None:
    settings = config(epochs=1, n_steps=2)
    rows = run_digits(tmp_path / "run", settings, "raw", per_class=FEW)
    strange = [replace(row, network_sha256="of another", overall=0.123) for row in rows]
    RunDirectory(tmp_path / "run").write_rows([row.to_json() for row in strange])
    assert run_digits(tmp_path / "run", settings, "raw", per_class=FEW) == rows


class HoldingOut(BiC):
    """Records the training images and the held-out images of each step."""

    steps: list[tuple[set[int], set[int]]] = []  # noqa: RUF012 - shared on purpose

    def learn(self, step: Any, network: Any, teacher: Any) -> None:
        held_out = {index for of_class in step.new_held_out for index in of_class.tolist()}
        HoldingOut.steps.append((set(step.indices.tolist()), held_out))
        super().learn(step, network, teacher)


def test_what_is_held_out_is_never_trained_on(tmp_path: Path) -> None:
    """Neither in its own step nor later, when it may be kept as a held-out exemplar."""
    HoldingOut.steps.clear()
    settings = digits_config(HoldingOut(), epochs=1, corrector="bic", memory="herding:40")
    run_digits(tmp_path / "run", settings, "bic", per_class=FEW)
    held_out = set().union(*(held for _, held in HoldingOut.steps))
    assert len(HoldingOut.steps) == 5
    assert all(held for _, held in HoldingOut.steps)
    assert not any(trained & held_out for trained, _ in HoldingOut.steps)
