"""TDE: by hand for each head, and properties of all heads."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pytest
import torch

from energyalign import EnergyAlignError
from energyalign.experiments.correctors import find_corrector
from energyalign.experiments.correctors.tde import Tde, rule_of_thumb
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.trained import Trained
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.presets import preset_for
from energyalign.experiments.nets.corrected_heads import WithoutDirection, remove_direction
from energyalign.experiments.nets.heads import NormalisedHead, make_head

torch.set_num_threads(1)

HEADS = ["cosine", "capsule", "causal-norm"]


def head_with(name: str, weight: list[list[float]]) -> NormalisedHead:
    head: NormalisedHead = make_head(name, len(weight[0]), len(weight))
    with torch.no_grad():
        head.weight.copy_(torch.tensor(weight))
    return head


class Result(NamedTuple):
    """Logits of test features under the corrected head, and its details."""

    logits: npt.NDArray[np.float32]
    details: dict[str, Any]
    shifts: object


def corrected(
    head: NormalisedHead, train: npt.ArrayLike, test: npt.ArrayLike, dataset: str = "digits",
    backbone: str = "resnet32-bbn",
) -> Result:  # fmt: skip
    """Correct a training that ended with these features."""
    trained = SimpleNamespace(
        config=SimpleNamespace(dataset=dataset, backbone=backbone), copied_head=lambda: head,
        with_head=lambda corrected: SimpleNamespace(head=corrected), train_features=np.array(train, dtype=np.float32),
    )  # fmt: skip
    made = Tde().correct(cast(Trained, trained), EvidencePlan())
    with torch.inference_mode():
        logits = made.network.head(torch.tensor(np.array(test), dtype=torch.float32)).numpy()
    return Result(logits, dict(made.details), made.shifts)


def direct_effect(head: NormalisedHead, features: torch.Tensor, mean: torch.Tensor, alpha: float) -> torch.Tensor:
    return WithoutDirection(head, mean, alpha)(features)


def test_cosine_by_hand() -> None:
    """d = (4, 0): alpha * 0.6 is removed from x^ = (0.6, 0.8) along the first axis; alpha is 1 or 1.5 by data set."""
    head = head_with("cosine", [[2.0, 0.0], [0.0, 0.5], [-3.0, 0.0]])
    train, test = [[6.0, 1.0], [2.0, -1.0]], [[3.0, 4.0]]
    once = corrected(head, train, test, "cifar10")
    np.testing.assert_allclose(once.logits, [[0.0, 12.8, 0.0]], atol=1e-5)
    assert once.details == {"alpha": 1.0}
    assert once.shifts is None
    more = corrected(head, train, test, "cifar100")
    np.testing.assert_allclose(more.logits, [[-4.8, 12.8, 4.8]], atol=1e-5)
    assert corrected(head, train, test, "imagenet-lt", "resnet50").details == {"alpha": 3.0}


def test_the_alphas_of_cifar_belong_to_the_network_with_two_last_blocks() -> None:
    """On the plain ResNet-32, alpha follows the rule of thumb: the cosines are 0.6 and 0.6."""
    head = head_with("cosine", [[2.0, 0.0], [0.0, 0.5], [-3.0, 0.0]])
    plain = corrected(head, [[3.0, 4.0], [3.0, -4.0]], [[3.0, 4.0]], "cifar100", "resnet32")
    assert plain.details["alpha"] == pytest.approx(1 / 0.6)


def test_capsule_by_hand() -> None:
    """x has length 5, so it becomes 5/6 of (0.6, 0.8) = (1/2, 2/3); 1.5 * 1/2 is removed along the first axis."""
    head = head_with("capsule", [[2.0, 0.0], [0.0, 0.5], [-3.0, 0.0]])
    result = corrected(head, [[6.0, 1.0], [2.0, -1.0]], [[3.0, 4.0]], "cifar100")
    np.testing.assert_allclose(result.logits, [[-4.0, 16 * 2 / 3, 4.0]], rtol=1e-5)


def test_causal_norm_by_hand() -> None:
    """Halves (0.6, 0.8) and (0, 1); d^ = (1, 0) and (0, 1): of the first half 0.6 is removed, of the second all."""
    head = head_with("causal-norm", [[1.0, 0.0, 0.0, 1.0], [0.0, 1 / 32, 1.0, 0.0], [-1.0, 1.0, 0.0, 5.0]])
    train, test = [[6.0, 1.0, 3.0, 7.0], [2.0, -1.0, -3.0, 1.0]], [[3.0, 4.0, 0.0, 2.0]]
    result = corrected(head, train, test, "cifar10")
    third = 8 * 0.8 / (np.sqrt(2) + 1 / 32)
    np.testing.assert_allclose(result.logits, [[0.0, 8 * 0.8 / 2, third]], atol=1e-5)


def test_causal_norm_as_published() -> None:
    rng = np.random.default_rng(0)
    train, test, weight = rng.random((20, 6)) + 0.1, rng.random((7, 6)), rng.normal(size=(3, 6))
    wanted = np.zeros((7, 3))
    for part in (slice(0, 3), slice(3, 6)):
        x, d, w = test[:, part], train[:, part].mean(0), weight[:, part]
        cos = x @ d / np.linalg.norm(x, axis=1) / np.linalg.norm(d)
        unit = x / np.linalg.norm(x, axis=1, keepdims=True)
        left = unit - 3.0 * cos[:, None] * d / np.linalg.norm(d)
        wanted += 16 / 2 * left @ (w / (np.linalg.norm(w, axis=1, keepdims=True) + 1 / 32)).T
    result = corrected(head_with("causal-norm", weight.tolist()), train, test, "imagenet-lt", "resnext50")
    np.testing.assert_allclose(result.logits, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", HEADS)
def test_nothing_removed_gives_the_raw_logits(name: str) -> None:
    torch.manual_seed(0)
    head, features = make_head(name, 6, 4), torch.rand(9, 6)
    head.bias = torch.nn.Parameter(torch.randn(4))
    torch.testing.assert_close(direct_effect(head, features, torch.rand(6), 0.0), head(features))


@pytest.mark.parametrize("name", HEADS)
def test_with_alpha_one_nothing_is_left_along_the_direction(name: str) -> None:
    """So a class whose weights have this direction gets a logit of zero for every image."""
    torch.manual_seed(0)
    head, features, mean = make_head(name, 6, 4), torch.rand(9, 6), torch.rand(6)
    left = remove_direction(head.normalised(features), mean, 1.0, head.n_parts)
    size = 6 // head.n_parts
    for x, d in zip(left.split(size, dim=1), mean.split(size), strict=True):
        torch.testing.assert_close(x @ d, torch.zeros(9), rtol=0, atol=1e-6)
    with torch.no_grad():
        head.weight[2] = 3 * mean
    logits = direct_effect(head, features, mean, 1.0)
    torch.testing.assert_close(logits[:, 2], torch.zeros(9), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", HEADS)
def test_the_length_of_the_mean_feature_does_not_matter(name: str) -> None:
    torch.manual_seed(0)
    head, features, mean = make_head(name, 6, 4), torch.rand(9, 6), torch.rand(6)
    torch.testing.assert_close(
        direct_effect(head, features, 100 * mean, 1.5), direct_effect(head, features, mean, 1.5), rtol=1e-4, atol=1e-5
    )


def test_the_rule_of_thumb_by_hand() -> None:
    """Cosines 0.6 and 1 have a mean of 0.8. For halves: 0.6 and 1, 1 and 0, with a mean of 0.65."""
    features = torch.tensor([[3.0, 4.0], [2.0, 0.0]])
    assert rule_of_thumb(features, torch.tensor([7.0, 0.0]), 1) == pytest.approx(1 / 0.8)
    halves = torch.tensor([[3.0, 4.0, 0.0, 9.0], [2.0, 0.0, 1.0, 0.0]])
    assert rule_of_thumb(halves, torch.tensor([7.0, 0.0, 0.0, 2.0]), 2) == pytest.approx(1 / 0.65)


def test_other_data_follow_the_rule_of_thumb() -> None:
    head = head_with("cosine", [[2.0, 0.0], [0.0, 0.5], [-3.0, 0.0]])
    result = corrected(head, [[3.0, 4.0], [3.0, -4.0]], [[3.0, 4.0]], "folder:mine")
    assert result.details["alpha"] == pytest.approx(1 / 0.6)
    np.testing.assert_allclose(result.logits, [[16 * (0.6 - 1.0), 12.8, -16 * (0.6 - 1.0)]], rtol=1e-5)


def test_a_network_that_says_zero_to_all_has_no_direction_to_take_out() -> None:
    result = corrected(make_head("causal-norm", 4, 3), np.zeros((5, 4)), np.zeros((2, 4)))
    assert result.details == {"alpha": 0.0}
    assert not result.logits.any()


def setting_with(head: str) -> Any:
    preset = replace(preset_for("digits", 50), head=head)
    return SimpleNamespace(config=LongTailConfig.from_preset(preset, seed=0))


def test_a_linear_head_is_refused_with_the_reason() -> None:
    with pytest.raises(EnergyAlignError, match=r"linear head does not normalise.*heads cosine, capsule, causal-norm"):
        Tde().check(setting_with("linear"))
    for name in HEADS:
        Tde().check(setting_with(name))


def test_it_has_a_name_and_needs_no_evidence() -> None:
    assert find_corrector("tde") == Tde()
    assert not Tde().reads_evidence
