"""BiC: its pair compared with known pairs and an independent minimisation, and where it is applied."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hand_made_step import hand_made_step, linear, pixels
from incremental_run import digits_config, run_digits
from safetensors.torch import load_file
from scipy.optimize import brentq, minimize

from energyalign.experiments.correctors.bic import BiasCorrection, fit_pair
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.incremental.learners.distill import BiC
from energyalign.experiments.incremental.step import Step
from energyalign.experiments.nets.network import Network

Floats = npt.NDArray[np.float64]


def by_hand(logits: Floats, alpha: float, beta: float, new: slice) -> Floats:
    corrected = logits.copy()
    corrected[:, new] = alpha * corrected[:, new] + beta
    return corrected


def biased(n: int, *, alpha: float, beta: float) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Draw logits of 3 old and 2 new classes that are calibrated after ``alpha * logit + beta`` for new classes."""
    rng = np.random.default_rng(0)
    honest = rng.normal(scale=2.0, size=(n, 5))
    labels = (honest + rng.gumbel(size=honest.shape)).argmax(axis=1)  # drawn from their softmax
    return by_hand(honest, 1 / alpha, -beta / alpha, slice(3, 5)), labels


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (0.6, -0.5), (0.4, 1.0), (1.5, -2.0)])
def test_a_known_pair_is_found(alpha: float, beta: float) -> None:
    logits, labels = biased(40_000, alpha=alpha, beta=beta)
    pair = fit_pair(torch.from_numpy(logits), torch.from_numpy(labels), 3, decay=0.0)
    assert pair.tolist() == pytest.approx([alpha, beta], abs=0.05)


@pytest.mark.parametrize("scale", [1.0, 30.0])  # at 30, the original's learning rate is too large
def test_it_minimises_the_cross_entropy_of_logits_and_the_decay_of_beta(scale: float) -> None:
    logits, labels = biased(100, alpha=0.5, beta=-1.0)
    logits *= scale

    def objective(pair: Floats) -> float:
        corrected = by_hand(logits, pair[0], pair[1], slice(3, 5))
        top = corrected.max(axis=1)
        log_sum = top + np.log(np.exp(corrected - top[:, None]).sum(axis=1))
        return float((log_sum - corrected[np.arange(100), labels]).mean() + 0.1 * pair[1] ** 2 / 2)

    found = minimize(objective, [1.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12}).x
    pair = fit_pair(torch.from_numpy(logits), torch.from_numpy(labels), 3, decay=0.1)
    assert pair.tolist() == pytest.approx(found.tolist(), abs=1e-3)
    assert objective(pair.numpy()) <= objective(found) + 1e-8


def test_beta_alone() -> None:
    """For logits of zero, alpha has no effect, and the gradient of the loss is sigmoid(beta) - 1/4 + 0.1 beta."""
    pair = fit_pair(torch.zeros(8, 2), torch.tensor([0, 0, 0, 0, 0, 0, 1, 1]), 1, decay=0.1)
    root = brentq(lambda beta: 1 / (1 + np.exp(-beta)) - 0.25 + 0.1 * beta, -5, 0)
    assert pair.tolist() == pytest.approx([1.0, root], abs=1e-4)


def test_without_a_minimum_the_pair_is_finite() -> None:
    """Logits of new classes have the right sign for every image: larger alpha is always better."""
    logits = torch.tensor([[3.0, 0.0, -1.0, -2.0], [0.0, 3.0, -1.0, -1.0], [1.0, 1.0, 2.0, 0.0], [1.0, 0.0, 0.0, 2.0]])
    alpha, beta = fit_pair(logits, torch.arange(4), 2, decay=0.1).tolist()
    assert 2 < alpha < 100
    assert abs(beta) < 0.1


def test_the_pair_is_of_held_out_images_and_old_logits_stay() -> None:
    """Training images show no bias; all held-out images are predicted as the new class."""
    head = linear([[1.0, 0.0], [0.0, 1.0]])
    train = pixels([[9, 0], [9, 0], [0, 9], [0, 9]], [0, 0, 1, 1], 2)
    held_out = pixels([[2, 3], [2, 4], [1, 5], [3, 4]], [0, 0, 1, 1], 2)
    after = hand_made_step(head, (1, 1), train, held_out=held_out)
    corrected = BiasCorrection().correct(after, EvidencePlan())
    logits = torch.tensor([[2.0, 3.0], [2.0, 4.0], [1.0, 5.0], [3.0, 4.0]])
    expected = fit_pair(logits, torch.tensor([0, 0, 1, 1]), 1, decay=0.1).tolist()
    assert [corrected.details["alpha"], corrected.details["beta"]] == pytest.approx(expected, abs=1e-4)
    assert corrected.details["held_out"] == 4
    alpha, beta = expected
    assert alpha * 3 + beta < 3
    says = corrected.network.head(torch.tensor([[7.0, 2.0]])).tolist()[0]
    assert says == pytest.approx([7.0, 2 * alpha + beta], abs=1e-3)
    assert after.network.head(torch.tensor([[7.0, 2.0]])).tolist() == [[7.0, 2.0]]
    assert corrected.concerns == ()


def test_one_held_out_image_of_each_class_is_a_concern() -> None:
    images = pixels([[9, 0], [0, 9]], [0, 1], 2)
    after = hand_made_step(linear([[1.0, 0.0], [0.0, 1.0]]), (1, 1), images, held_out=images)
    (concern,) = BiasCorrection().correct(after, EvidencePlan()).concerns
    assert "from only 1 held-out images of each class" in concern


@dataclass(frozen=True)
class Watched(BiC):
    """Records the teacher and the head at the beginning of each step."""

    seen: ClassVar[dict[int, tuple[torch.nn.Module | None, dict[str, torch.Tensor]]]] = {}

    def learn(self, step: Step, network: Network, teacher: torch.nn.Module | None) -> None:
        self.seen[step.number] = teacher, {name: value.clone() for name, value in network.head.state_dict().items()}
        super().learn(step, network, teacher)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[tuple[int, str], Any]]:
    """Run steps of 4, 3 and 3 classes; return the rows by step and corrector."""
    folder = tmp_path_factory.mktemp("bic") / "run"
    Watched.seen.clear()
    config = digits_config(Watched(), epochs=4, n_steps=3, memory="herding:40", corrector="bic")
    rows = run_digits(folder, config, "raw", "bic")
    return folder, {(row.step, row.corrector): row for row in rows}


def logits_as_trained(folder: Path, step: int) -> tuple[Floats, npt.NDArray[np.int64]]:
    arrays = load_file(folder / f"step-{step:02d}" / "test_logits.safetensors")
    return arrays["logits"].double().numpy(), arrays["labels"].numpy()


@pytest.mark.parametrize(("step", "n_old"), [(2, 4), (3, 7)])
def test_at_test_new_classes_alone_carry_the_newest_pair(run: Any, step: int, n_old: int) -> None:
    folder, rows = run
    row, (logits, labels) = rows[step, "bic"], logits_as_trained(folder, step)
    details = row.details
    right = by_hand(logits, details["alpha"], details["beta"], slice(n_old, None)).argmax(axis=1) == labels
    assert row.overall == right.mean()
    assert row.old == pytest.approx(right[labels < n_old].mean())
    assert row.new == pytest.approx(right[labels >= n_old].mean())
    assert row.overall > rows[step, "raw"].overall


def test_the_next_teacher_carries_the_pair_and_the_next_student_does_not(run: Any) -> None:
    folder, rows = run
    (no_teacher, _), (second, _), (third, student) = (Watched.seen[step] for step in (1, 2, 3))
    assert no_teacher is None
    weights = {step: load_file(folder / f"step-{step:02d}" / "network.safetensors") for step in (1, 2)}
    features = torch.rand(20, 64, generator=torch.Generator().manual_seed(0))

    def as_trained(step: int) -> Floats:
        logits = features @ weights[step]["head.weight"].T + weights[step]["head.bias"]
        return np.asarray(logits.double().numpy())

    assert second is not None
    assert third is not None
    details = rows[2, "bic"].details
    with torch.no_grad():
        np.testing.assert_allclose(second.head(features), as_trained(1), atol=1e-4)  # nothing to correct in step 1
        expected = by_hand(as_trained(2), details["alpha"], details["beta"], slice(4, 7))
        np.testing.assert_allclose(third.head(features), expected, atol=1e-4)
    assert not third.training
    for name in ("weight", "bias"):
        torch.testing.assert_close(student[name][:7], weights[2][f"head.{name}"], rtol=0, atol=0)


def test_the_weight_of_the_teacher_is_the_part_of_old_classes() -> None:
    """The learner ignores the cell: lambda for digits would be half as large."""
    after = hand_made_step(linear([[1.0]] * 10), (4, 4, 2), pixels([[1]], [9], 10))
    assert after.config.lambda_base == 0.5
    assert BiC().weight(after.ground) == 0.8
