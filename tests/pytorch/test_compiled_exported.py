"""Networks that are compiled, exported, saved, in half precision or data parallel, before or after aligning."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch import nn

from energyalign.pytorch import AlignedModel, align
from energyalign.pytorch.inference import plain_network

pytestmark = pytest.mark.filterwarnings("ignore:the raw model is right on")  # networks that were never trained

COUNTS = [100, 40, 10, 4]
SHIFTS = np.log(4.0 / np.array(COUNTS))  # logit adjustment, with the rarest class unchanged
Batches = list[tuple[torch.Tensor, torch.Tensor]]


def aligned_by_counts(model: nn.Module, batches: Batches, **options: Any) -> nn.Module:
    """Align; check that a model without a head to fold into is wrapped, with a warning."""
    if head_of(model) is not None:
        return align(model, batches, counts=COUNTS, estimator="prior", **options)
    with pytest.warns(UserWarning, match="AlignedModel wrapper adds them instead"):
        return align(model, batches, counts=COUNTS, estimator="prior", **options)


def head_of(model: nn.Module) -> nn.Module | None:
    """Return the last module with a bias attribute."""
    modules = [module for module in model.modules() if "bias" in module._parameters]
    return modules[-1] if modules else None


def had_bias(model: nn.Module) -> bool:
    head = head_of(model)
    return head is not None and head.bias is not None


def logits_of(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    """Return logits in evaluation mode, without copying the model: a copy would not be compiled."""
    with torch.no_grad():
        return model.eval()(inputs).float().reshape(len(inputs), -1)


def assert_shifted(corrected: Any, raw: Any, atol: float = 1e-5) -> None:
    difference = np.asarray(corrected).reshape(len(raw), -1) - np.asarray(raw)
    np.testing.assert_allclose(difference, np.tile(SHIFTS, (len(raw), 1)), rtol=0, atol=atol)


class TestCompiled:
    @pytest.fixture(autouse=True)
    def nothing_compiled_before(self) -> Iterator[None]:
        """After eight versions of the same code torch silently stops compiling and runs the Python code."""
        torch.compiler.reset()
        yield
        torch.compiler.reset()

    def test_an_aligned_network_compiles(self, any_network: nn.Module, batches: Batches) -> None:
        aligned = aligned_by_counts(any_network, batches)
        compiled = torch.compile(aligned, backend="aot_eager", fullgraph=True)
        assert_shifted(logits_of(compiled, batches[0][0]), logits_of(any_network, batches[0][0]))

    # Compiling takes seconds: test one folded and one wrapped network.
    @pytest.mark.parametrize("any_network", ["linear", "functional"], indirect=True)
    def test_an_aligned_network_compiles_to_machine_code(self, any_network: nn.Module, batches: Batches) -> None:
        aligned = aligned_by_counts(any_network, batches)
        compiled = torch.compile(aligned, backend="inductor", fullgraph=True)
        assert_shifted(logits_of(compiled, batches[0][0]), logits_of(any_network, batches[0][0]))

    @pytest.mark.parametrize("any_network", ["linear", "linear without bias", "cosine", "functional"], indirect=True)
    def test_a_compiled_network_is_aligned_in_place(self, any_network: nn.Module, batches: Batches) -> None:
        compiled = torch.compile(any_network, backend="aot_eager", fullgraph=True)
        raw = logits_of(compiled, batches[0][0])  # there is code with the old bias now
        aligned = aligned_by_counts(compiled, batches, inplace=True)
        assert (aligned.model if isinstance(aligned, AlignedModel) else aligned) is compiled
        assert_shifted(logits_of(aligned, batches[0][0]), raw)

    @pytest.mark.parametrize("any_network", ["linear", "linear without bias", "functional"], indirect=True)
    def test_of_a_compiled_network_comes_a_plain_copy(self, any_network: nn.Module, batches: Batches) -> None:
        compiled = torch.compile(any_network, backend="aot_eager", fullgraph=True)
        raw = logits_of(compiled, batches[0][0])
        aligned = aligned_by_counts(compiled, batches)
        assert type(aligned.model if isinstance(aligned, AlignedModel) else aligned) is type(any_network)
        assert not any("_orig_mod" in name for name in aligned.state_dict())
        assert_shifted(logits_of(aligned, batches[0][0]), raw)
        assert torch.equal(logits_of(compiled, batches[0][0]), raw)

    @pytest.mark.parametrize("inplace", [False, True])
    def test_a_network_with_a_compiled_part(self, linear: nn.Module, batches: Batches, inplace: bool) -> None:
        linear[0] = torch.compile(linear[0], backend="aot_eager", fullgraph=True)
        raw = logits_of(linear, batches[0][0])
        aligned = aligned_by_counts(linear, batches, inplace=inplace)
        assert type(aligned) is nn.Sequential
        assert_shifted(logits_of(aligned, batches[0][0]), raw)


class TestExported:
    def test_no_more_operations(self, any_network: nn.Module, batches: Batches) -> None:
        before, after = (
            torch.export.export(model.eval(), (batches[0][0],)).graph.nodes
            for model in (any_network, aligned_by_counts(any_network, batches))
        )
        if had_bias(any_network):
            assert [node.target for node in after] == [node.target for node in before]
            return
        old, new = ([node.target for node in nodes if node.op == "call_function"] for nodes in (before, after))
        assert new[: len(old)] == old
        # A head without a bias may need one addition at the end. A linear layer adds the bias itself; the wrapper looks
        # at the dtype first, which costs nothing in a graph with one dtype.
        no_work = {torch.ops.aten._assert_tensor_metadata.default, torch.ops.aten.to.dtype}
        added = [target for target in new[len(old) :] if target not in no_work]
        assert added == ([] if isinstance(head_of(any_network), nn.Linear) else [torch.ops.aten.add.Tensor])

    @pytest.mark.parametrize("network", ["linear", "linear without bias", "1x1 convolution"], indirect=True)
    def test_the_traced_graph_is_the_same(self, network: nn.Module, batches: Batches) -> None:
        before, after = (
            [(node.op, node.target) for node in torch.fx.symbolic_trace(model).graph.nodes]
            for model in (network, aligned_by_counts(network, batches))
        )
        assert after == before

    def test_saved_and_loaded(self, any_network: nn.Module, batches: Batches, tmp_path: Path) -> None:
        aligned = aligned_by_counts(any_network, batches).eval()
        torch.export.save(torch.export.export(aligned, (batches[0][0],)), tmp_path / "aligned.pt2")
        loaded = torch.export.load(tmp_path / "aligned.pt2").module()
        assert_shifted(loaded(batches[0][0]).detach(), logits_of(any_network, batches[0][0]))

    def test_an_exported_network_is_wrapped(self, linear: nn.Module, batches: Batches) -> None:
        exported = torch.export.export(linear.eval(), (batches[0][0],)).module()
        with pytest.warns(UserWarning, match="AlignedModel wrapper adds them instead"):
            aligned = align(exported, batches, counts=COUNTS, estimator="prior")
        assert_shifted(aligned(batches[0][0]).detach(), logits_of(linear, batches[0][0]))

    # TorchScript is deprecated, but many saved networks use it.
    @pytest.mark.filterwarnings("ignore:`torch.jit.trace` is deprecated:FutureWarning")
    @pytest.mark.filterwarnings("ignore:`torch.jit.trace_method` is deprecated:FutureWarning")
    def test_a_scripted_network_is_wrapped(self, linear: nn.Module, batches: Batches) -> None:
        scripted = torch.jit.trace(linear.eval(), (batches[0][0],))
        with pytest.warns(UserWarning, match="AlignedModel wrapper adds them instead"):
            aligned = align(scripted, batches, counts=COUNTS, estimator="prior")
        assert_shifted(logits_of(aligned, batches[0][0]), logits_of(linear, batches[0][0]))


# Exporting takes seconds; the other two heads have the graph of the first or the third.
@pytest.mark.parametrize(
    "any_network", ["linear", "linear without bias", "map of one pixel", "cosine", "functional"], indirect=True
)
def test_onnx_says_raw_plus_shifts(any_network: nn.Module, batches: Batches, tmp_path: Path) -> None:
    inputs, aligned = batches[0][0], aligned_by_counts(any_network, batches)
    operations = {}
    for name, model in (("raw", any_network), ("aligned", aligned)):
        torch.onnx.export(model.eval(), (inputs,), tmp_path / f"{name}.onnx", verbose=False)
        operations[name] = [node.op_type for node in onnx.load(tmp_path / f"{name}.onnx").graph.node]
    session = onnxruntime.InferenceSession(tmp_path / "aligned.onnx")
    corrected = session.run(None, {session.get_inputs()[0].name: inputs.numpy()})[0].reshape(len(inputs), -1)
    raw = logits_of(any_network, inputs)
    assert_shifted(corrected, raw)
    np.testing.assert_array_equal(corrected.argmax(1), aligned.shifts_.predict(raw))
    free = had_bias(any_network) or isinstance(head_of(any_network), nn.Linear)  # a place for a bias, used or not
    assert operations["aligned"] == operations["raw"] + ([] if free else ["Add"])


class TestSafetensors:
    def saved(self, aligned: nn.Module, folder: Path) -> dict[str, torch.Tensor]:
        save_file(aligned.state_dict(), folder / "aligned.safetensors")
        return load_file(folder / "aligned.safetensors")

    @pytest.mark.parametrize("network", ["linear without bias", "cosine"], indirect=True)
    def test_a_new_bias_needs_a_slot(self, network: nn.Module, batches: Batches, tmp_path: Path) -> None:
        weights = self.saved(aligned_by_counts(network, batches), tmp_path)
        fresh = copy.deepcopy(network)
        with pytest.raises(RuntimeError, match=r'Unexpected key\(s\) in state_dict: "4.bias"'):
            fresh.load_state_dict(weights)
        fresh[-1].bias = nn.Parameter(torch.zeros(4))
        fresh.load_state_dict(weights)
        assert_shifted(logits_of(fresh, batches[0][0]), logits_of(network, batches[0][0]))

    def test_the_wrapper_takes_its_shifts_along(self, functional: nn.Module, batches: Batches, tmp_path: Path) -> None:
        aligned = aligned_by_counts(functional, batches)
        weights = self.saved(aligned, tmp_path)
        with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "weight"'):
            copy.deepcopy(functional).load_state_dict(weights)
        fresh = AlignedModel(type(functional)(), dataclasses.replace(aligned.shifts_, values=np.zeros(4)))
        fresh.load_state_dict(weights)
        assert_shifted(logits_of(fresh, batches[0][0]), logits_of(functional, batches[0][0]))


class TestAutocast:
    def test_within_the_precision_of_bfloat16(self, any_network: nn.Module, batches: Batches) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            aligned = aligned_by_counts(any_network, batches)
            assert torch.is_autocast_enabled("cpu")
            assert torch.get_autocast_dtype("cpu") == torch.bfloat16
            raw, corrected = (logits_of(model, batches[0][0]) for model in (any_network, aligned))
        assert not torch.is_autocast_enabled("cpu")
        assert_shifted(corrected, raw, atol=2.0**-7 * float(corrected.abs().max()))
        assert all(parameter.dtype == torch.float32 for parameter in aligned.parameters())
        # The weights hold the exact shifts; full precision is only rounded in use.
        assert_shifted(logits_of(aligned, batches[0][0]), logits_of(any_network, batches[0][0]))

    def test_in_place_between_two_passes(self, network: nn.Module, batches: Batches) -> None:
        """Autocast caches rounded copies of the weights; the old bias must not stay in its cache."""
        with torch.autocast("cpu", dtype=torch.bfloat16):
            raw = network.eval()(batches[0][0]).detach().float().flatten(1)
            aligned_by_counts(network, batches, inplace=True)
            corrected = network.eval()(batches[0][0]).detach().float().flatten(1)
        assert_shifted(corrected, raw, atol=2.0**-7 * float(corrected.abs().max()))


class TestDataParallel:
    @pytest.fixture(autouse=True)
    def group_of_one(self, tmp_path: Path) -> Iterator[None]:
        dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
        yield
        dist.destroy_process_group()

    @pytest.fixture(params=["one process", "many processes"])
    def parallel(self, request: pytest.FixtureRequest, network: nn.Module) -> nn.Module:
        wrap = nn.DataParallel if request.param == "one process" else nn.parallel.DistributedDataParallel
        return wrap(network)

    def test_the_network_is_inside(self, parallel: nn.Module, network: nn.Module) -> None:
        assert plain_network(parallel) is network

    def test_a_plain_network_comes_out(self, parallel: nn.Module, network: nn.Module, batches: Batches) -> None:
        aligned = aligned_by_counts(parallel, batches)
        assert type(aligned) is nn.Sequential
        assert list(network.state_dict()) == [name for name in aligned.state_dict() if name in network.state_dict()]
        assert_shifted(logits_of(aligned, batches[0][0]), logits_of(network, batches[0][0]))

    def test_in_place_it_stays_parallel(self, parallel: nn.Module, network: nn.Module, batches: Batches) -> None:
        raw = logits_of(parallel, batches[0][0])
        assert aligned_by_counts(parallel, batches, inplace=True) is parallel
        assert_shifted(logits_of(parallel, batches[0][0]), raw)
        parallel.train()(batches[0][0]).sum().backward()
        assert head_of(network).bias.grad is not None
