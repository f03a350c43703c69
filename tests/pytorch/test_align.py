"""`align` returns the same network with corrected logits, and changes nothing else."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from energyalign import EnergyAligner, EnergyAlignError
from energyalign.pytorch import AlignedModel, align
from energyalign.pytorch.after_training import AfterTraining
from energyalign.pytorch.label_counts import LabelCounter

COUNTS = [100, 40, 10, 4]
Batches = list[tuple[torch.Tensor, torch.Tensor]]


def logits_of(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return copy.deepcopy(model).eval()(inputs).reshape(len(inputs), -1)


def changed_entries(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {
        name for name in before | after
        if name not in before or name not in after or not torch.equal(before[name], after[name])
    }  # fmt: skip


def test_logits_are_raw_logits_plus_shifts(network: nn.Module, batches: Batches) -> None:
    aligned = align(network, batches, counts=COUNTS, estimator="marginal", clusters="per-class")
    inputs = torch.cat([x for x, _ in batches])
    wanted = logits_of(network, inputs) + torch.tensor(aligned.shifts_.values, dtype=torch.float32)
    torch.testing.assert_close(logits_of(aligned, inputs), wanted, rtol=0, atol=1e-5)
    assert np.ptp(aligned.shifts_.values) > 0.1


def test_only_the_bias_of_the_head_differs(network: nn.Module, batches: Batches) -> None:
    aligned = align(network, batches, counts=COUNTS, estimator="prior")
    assert type(aligned) is type(network)
    changed = changed_entries(network.state_dict(), aligned.state_dict())
    assert len(changed) == 1
    assert changed.pop().endswith("bias")


@pytest.mark.filterwarnings("ignore:the evidence does not show that aligning helps")
def test_shifts_are_those_of_the_core_on_the_same_logits(linear: nn.Module, batches: Batches) -> None:
    aligned = align(linear, batches, counts=COUNTS, evidence="held-out")
    logits = torch.cat([logits_of(linear, x) for x, _ in batches])
    labels = torch.cat([y for _, y in batches])
    expected = EnergyAligner(evidence="held-out").fit(logits.numpy(), labels.numpy(), counts=COUNTS)
    np.testing.assert_allclose(aligned.shifts_.values, expected.shifts_.values, atol=1e-5)
    assert aligned.shifts_.estimator == expected.shifts_.estimator
    aligned.eval()
    with torch.no_grad():
        predicted = torch.cat([aligned(x) for x, _ in batches]).argmax(1).numpy()
    np.testing.assert_array_equal(predicted, expected.predict(logits.numpy()))


def test_the_network_given_is_not_disturbed(linear: nn.Module, batches: Batches) -> None:
    linear[1].eval()  # mixed modes, which must be restored one by one
    state, modes = copy.deepcopy(linear.state_dict()), [module.training for module in linear.modules()]
    torch.manual_seed(7)
    numbers = torch.get_rng_state()
    aligned = align(linear, batches, counts=COUNTS, estimator="marginal", clusters="per-class")
    assert changed_entries(state, linear.state_dict()) == set()
    assert [module.training for module in linear.modules()] == modes
    assert [module.training for module in aligned.modules()] == modes
    assert torch.equal(torch.get_rng_state(), numbers)
    assert all(p.requires_grad and not p.is_inference() for p in aligned.parameters())


def test_in_place_changes_the_network_itself(linear: nn.Module, batches: Batches) -> None:
    before = linear[-1].bias.detach().clone()
    aligned = align(linear, batches, counts=COUNTS, estimator="prior", inplace=True)
    assert aligned is linear
    difference = (linear[-1].bias - before).detach().numpy()
    np.testing.assert_allclose(difference, aligned.shifts_.values, atol=1e-6)


def test_a_head_that_was_frozen_stays_frozen(linear: nn.Module, batches: Batches) -> None:
    linear.requires_grad_(False)
    aligned = align(linear, batches, counts=COUNTS, estimator="prior")
    assert not any(p.requires_grad for p in aligned.parameters())


@pytest.mark.filterwarnings("ignore:the raw model is right on")  # it is untrained
def test_a_functional_head_is_wrapped_and_the_user_told(functional: nn.Module, batches: Batches) -> None:
    with pytest.warns(UserWarning, match="AlignedModel wrapper adds them instead"):
        aligned = align(functional, batches, counts=COUNTS, estimator="prior")
    assert isinstance(aligned, AlignedModel)
    inputs = batches[0][0]
    difference = (aligned(inputs) - functional(inputs)).detach().numpy()
    np.testing.assert_allclose(difference, np.tile(aligned.shifts_.values, (32, 1)), atol=1e-5)
    assert "shifts" in aligned.state_dict()


def test_dict_batches_and_outputs_with_logits(named: nn.Module, batches: Batches) -> None:
    loader = [{"input_values": x, "labels": y} for x, y in batches]
    aligned = align(named, loader, counts=COUNTS, estimator="marginal")
    output = aligned(batches[0][0])
    raw = named(batches[0][0])
    np.testing.assert_allclose(
        (output.logits - raw.logits).detach().numpy(), np.tile(aligned.shifts_.values, (32, 1)), atol=1e-5
    )
    assert aligned.shifts_.n_samples == 160


def test_unlabelled_batches(linear: nn.Module, batches: Batches) -> None:
    labelled = align(linear, batches, estimator="lse", clusters="per-class")
    for loader in ([x for x, _ in batches], [(x,) for x, _ in batches]):
        unlabelled = align(linear, loader, estimator="lse", clusters="per-class")
        np.testing.assert_allclose(unlabelled.shifts_.values, labelled.shifts_.values, atol=1e-6)


def test_half_precision_within_its_rounding(linear: nn.Module, batches: Batches) -> None:
    linear.to(torch.bfloat16)
    loader = [(x.to(torch.bfloat16), y) for x, y in batches]
    aligned = align(linear, loader, counts=COUNTS, estimator="prior")
    raw, corrected = (logits_of(model, loader[0][0]).float() for model in (linear, aligned))
    wanted = raw + torch.tensor(aligned.shifts_.values, dtype=torch.float32)
    assert float((corrected - wanted).abs().max()) <= 2.0**-7 * float(wanted.abs().max())
    assert aligned[-1].bias.dtype == torch.bfloat16


def test_save_and_load(linear: nn.Module, batches: Batches, tmp_path: Any) -> None:
    aligned = align(linear, batches, counts=COUNTS, estimator="marginal", clusters="per-class")
    save_file(aligned.state_dict(), tmp_path / "aligned.safetensors")
    loaded = copy.deepcopy(linear)
    loaded.load_state_dict(load_file(tmp_path / "aligned.safetensors"))
    torch.testing.assert_close(logits_of(loaded, batches[0][0]), logits_of(aligned, batches[0][0]), rtol=0, atol=0)


def test_the_exported_graph_has_no_more_nodes(linear: nn.Module, batches: Batches) -> None:
    aligned = align(linear, batches, counts=COUNTS, estimator="marginal", clusters="per-class").eval()
    inputs = (batches[0][0],)
    before, after = torch.export.export(linear.eval(), inputs), torch.export.export(aligned, inputs)
    assert [node.target for node in after.graph.nodes] == [node.target for node in before.graph.nodes]
    torch.testing.assert_close(after.module()(*inputs), aligned(*inputs))


def test_an_explicit_head_wins(linear: nn.Module, batches: Batches) -> None:
    aligned = align(linear, batches, counts=COUNTS, estimator="prior", head="4")
    assert changed_entries(linear.state_dict(), aligned.state_dict()) == {"4.bias"}
    with pytest.raises(EnergyAlignError, match="no module 'nothing'"):
        align(linear, batches, counts=COUNTS, estimator="prior", head="nothing")
    with pytest.raises(EnergyAlignError, match="'0' \\(Linear\\) has no bias with one number per class"):
        align(linear, batches, counts=COUNTS, estimator="prior", head="0")


def test_an_aligned_network_is_not_aligned_again(linear: nn.Module, batches: Batches) -> None:
    aligned = align(linear, batches, counts=COUNTS, estimator="prior")
    with pytest.raises(EnergyAlignError, match=r"already aligned .* `del model.shifts_` first"):
        align(aligned, batches, counts=COUNTS, estimator="prior")


def test_a_network_aligned_in_inference_mode_can_be_trained(batches: Batches) -> None:
    network = nn.Linear(6, 4, bias=False)
    with torch.inference_mode():
        aligned = align(network, batches, counts=COUNTS, estimator="prior")
    aligned(batches[0][0]).sum().backward()
    assert aligned.bias.grad is not None


class Remembering(nn.Linear):
    """Keeps its results, uses one buffer for every output, and overrides evaluation mode."""

    noisy = True

    def train(self, mode: bool = True) -> Remembering:
        self.noisy = mode
        return super().train(mode)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert not self.noisy
        self.kept = super().forward(x)
        if not hasattr(self, "buffer"):
            self.buffer = torch.empty(32, 4)
        return self.buffer.copy_(self.kept.detach())


def test_a_network_with_habits(batches: Batches) -> None:
    torch.manual_seed(0)
    network = Remembering(6, 4).train()
    reference = nn.Linear(6, 4)
    reference.load_state_dict(network.state_dict())
    found = align(network, batches, estimator="lse", clusters="per-class").shifts_
    expected = align(reference, batches, estimator="lse", clusters="per-class").shifts_
    np.testing.assert_allclose(found.values, expected.values, atol=1e-6)
    # The results it keeps are not inference tensors: training can continue with them.
    (network.kept * torch.ones(4, requires_grad=True)).sum().backward()


def test_inputs_in_any_nesting_and_labels_in_any_form(batches: Batches) -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(6, 4)

        def forward(self, pair: Any) -> torch.Tensor:
            return self.head(pair[0] + pair[1]["more"])

    torch.manual_seed(0)
    network = Pair()
    forms = [lambda y: y.tolist(), lambda y: y.numpy().astype(np.uint8), lambda y: y[:, None]]
    results = [
        align(network, [((x.numpy(), {"more": x}), form(y)) for x, y in batches], counts=COUNTS, estimator="marginal")
        for form in forms
    ]
    for other in results[1:]:
        np.testing.assert_array_equal(other.shifts_.values, results[0].shifts_.values)
    unlabelled = align(network, [((x, {"more": x}), None) for x, _ in batches], estimator="lse")
    assert unlabelled.shifts_.n_samples == 160


def test_the_wrapper_leaves_out_a_loss_of_the_raw_logits(batches: Batches) -> None:
    class WithLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 6))

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            logits = x @ self.weight.T
            return {"loss": logits.sum(), "logits": logits, "hidden": x}

    with pytest.warns(UserWarning, match="AlignedModel"):
        aligned = align(WithLoss(), batches, counts=COUNTS, estimator="prior")
    assert sorted(aligned(batches[0][0])) == ["hidden", "logits"]


class TestBadInput:
    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            (torch.zeros(32, 4, dtype=torch.long), r"one class index per sample .*, got shape \(32, 4\)"),
            (torch.zeros(32), "expected class indices \\(integers\\) as labels of a batch, got float32"),
            (["cat"] * 32, "expected class indices as labels of a batch"),
        ],
    )
    def test_what_is_no_label(self, labels: Any, message: str, linear: nn.Module, batches: Batches) -> None:
        with pytest.raises(EnergyAlignError, match=message):
            align(linear, [(batches[0][0], labels)])

    def test_nothing_to_read(self, linear: nn.Module) -> None:
        with pytest.raises(EnergyAlignError, match="the loader must yield at least one batch"):
            align(linear, [])

    def test_nan_names_the_batch(self, linear: nn.Module, batches: Batches) -> None:
        batches[3][0][5] = torch.nan
        with pytest.raises(EnergyAlignError, match="NaN logits for batch 3"):
            align(linear, batches)

    def test_a_model_that_returns_a_tuple(self, batches: Batches) -> None:
        class Pair(nn.Linear):
            def forward(self, x: torch.Tensor) -> Any:
                return super().forward(x), x

        with pytest.raises(EnergyAlignError, match=r"must return a tensor of logits, .* got a tuple of 2"):
            align(Pair(6, 4), batches)

    def test_logits_of_another_shape(self, batches: Batches) -> None:
        with pytest.raises(EnergyAlignError, match=r"logits of shape \(32, 4, 6\)"):
            align(nn.Sequential(nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 4, 1)), batches)

    def test_a_batch_of_three(self, linear: nn.Module, batches: Batches) -> None:
        with pytest.raises(EnergyAlignError, match=r"must yield \(inputs, labels\), .* got a tuple of 3"):
            align(linear, [(x, y, y) for x, y in batches])

    def test_counts_of_other_classes(self, linear: nn.Module, batches: Batches) -> None:
        with pytest.raises(EnergyAlignError, match=r"training counts must have shape \(4,\)"):
            align(linear, batches, counts=[1, 2, 3])

    def test_labels_in_some_batches_only(self, linear: nn.Module, batches: Batches) -> None:
        with pytest.raises(EnergyAlignError, match="every batch must have one label per sample, or no batch may have"):
            align(linear, [batches[0], batches[1][0]])

    def test_the_model_is_as_before_after_an_error(self, linear: nn.Module, batches: Batches) -> None:
        state = copy.deepcopy(linear.state_dict())
        with pytest.raises(EnergyAlignError):
            align(linear, batches, counts=[1, 2, 3], inplace=True)
        assert changed_entries(state, linear.state_dict()) == set()
        assert linear.training


def test_a_score_is_passed_on(linear: nn.Module, batches: Batches) -> None:
    aligned = align(linear, batches, counts=COUNTS, evidence="held-out", scoring="f1_macro")
    assert aligned.shifts_.scoring == "f1_macro"
    logits, labels = torch.cat([logits_of(linear, x) for x, _ in batches]), torch.cat([y for _, y in batches])
    expected = EnergyAligner(evidence="held-out", scoring="f1_macro").fit(logits.numpy(), labels.numpy(), counts=COUNTS)
    np.testing.assert_allclose(aligned.shifts_.values, expected.shifts_.values, atol=1e-5)


def test_a_callback_refuses_what_it_does_not_know_before_training() -> None:
    with pytest.raises(TypeError, match=r"unknown options: scorin\. Besides its own, the callback takes .*scoring"):
        AfterTraining(scorin="f1_macro")  # type: ignore[call-arg]
    with pytest.raises(EnergyAlignError, match="unknown scoring 'f1_marco'"):
        AfterTraining(scoring="f1_marco")
    assert AfterTraining(scoring="f1_macro").aims == {"scoring": "f1_macro"}


def test_the_report_of_a_callback_has_mean_costs(linear: nn.Module, batches: Batches) -> None:
    costs = (1 - np.eye(4)) * [[1], [1], [1], [5]]
    callback = AfterTraining(loader=batches, evidence="held-out", counts=COUNTS, costs=costs)
    assert callback.align_or_warn(linear, None, None, LabelCounter)
    before, after = (callback.metrics_[f"costs_{when}"] for when in ("before", "after"))
    assert before < after < 0
    assert f"mean cost {-before:.3f} -> {-after:.3f} (cross-fitted on these samples)." in callback.report()
