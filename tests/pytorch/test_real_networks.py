"""Untrained networks of torchvision, timm and Hugging Face: the head is found, and only its bias changes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import pytest
import timm
import torch
import transformers as hf
from safetensors.torch import load_file, save_file
from torch import nn
from torchvision import models as tv
from torchvision.models.convnext import CNBlockConfig

from energyalign import EnergyAlignError, Evidence, fit_shifts
from energyalign.pytorch import AlignedModel, align, fold_shifts

N_CLASSES = 5
COUNTS = [100, 40, 20, 10, 4]
SHIFTS = np.log(4.0 / np.array(COUNTS))  # logit adjustment, with the rarest class unchanged

Batch = torch.Tensor | dict[str, torch.Tensor]


def images(side: int) -> torch.Tensor:
    return torch.randn(4, 3, side, side, generator=torch.Generator().manual_seed(1))


def pixels(side: int) -> Batch:
    return {"pixel_values": images(side)}


def tokens() -> Batch:
    """Return sentences of different lengths, padded with token 0."""
    ids = torch.randint(3, 50, (4, 6), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(6) < torch.tensor([[6], [4], [5], [2]])).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
SMALL_VISION = SMALL | {"image_size": 16, "patch_size": 8, "num_labels": N_CLASSES}
SMALL_TEXT = SMALL | {"vocab_size": 50, "max_position_embeddings": 16, "num_labels": N_CLASSES}
SPECIAL_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def bert(**options: Any) -> nn.Module:
    return hf.BertForSequenceClassification(hf.BertConfig(**SMALL_TEXT, **options))


def distilbert() -> nn.Module:
    config = hf.DistilBertConfig(
        vocab_size=50, max_position_embeddings=16, n_layers=1, n_heads=2, dim=16, hidden_dim=32, num_labels=N_CLASSES
    )
    return hf.DistilBertForSequenceClassification(config)


def roberta() -> nn.Module:
    return hf.RobertaForSequenceClassification(hf.RobertaConfig(**SMALL_TEXT, pad_token_id=0))


def vit() -> nn.Module:
    return hf.ViTForImageClassification(hf.ViTConfig(**SMALL_VISION))


def swin() -> nn.Module:
    config = hf.SwinConfig(
        image_size=16, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[1, 2], window_size=2, num_labels=N_CLASSES
    )
    return hf.SwinForImageClassification(config)


def convnext() -> nn.Module:
    config = hf.ConvNextConfig(hidden_sizes=[4, 8], depths=[1, 1], num_stages=2, num_labels=N_CLASSES)
    return hf.ConvNextForImageClassification(config)


def wav2vec2() -> nn.Module:
    config = hf.Wav2Vec2Config(
        **SMALL, conv_dim=(8, 8), conv_stride=(5, 2), conv_kernel=(10, 3), num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2, classifier_proj_size=8, num_labels=N_CLASSES,
    )  # fmt: skip
    return hf.Wav2Vec2ForSequenceClassification(config)


def gpt2() -> nn.Module:
    config = hf.GPT2Config(
        vocab_size=50, n_positions=16, n_embd=16, n_layer=1, n_head=2, num_labels=N_CLASSES, **SPECIAL_TOKENS
    )
    return hf.GPT2ForSequenceClassification(config)


def llama() -> nn.Module:
    return hf.LlamaForSequenceClassification(hf.LlamaConfig(**SMALL_TEXT, num_key_value_heads=2, **SPECIAL_TOKENS))


def deit_with_teacher() -> nn.Module:
    return hf.DeiTForImageClassificationWithTeacher(hf.DeiTConfig(**SMALL_VISION))


def squeezenet() -> nn.Module:
    return tv.squeezenet1_0(weights=None, num_classes=N_CLASSES)


def mobilenet() -> nn.Module:
    return tv.mobilenet_v3_small(weights=None, num_classes=N_CLASSES)


def googlenet() -> nn.Module:
    return tv.googlenet(weights=None, num_classes=N_CLASSES, init_weights=False)


def of_timm(name: str, **options: Any) -> Callable[[], nn.Module]:
    return lambda: timm.create_model(name, pretrained=False, num_classes=N_CLASSES, **options)


class Case(NamedTuple):
    """How to build a network, its input, and the entry of its state that may change."""

    build: Callable[[], nn.Module]
    batch: Batch
    bias: str


CONVNEXT_BLOCKS = [CNBlockConfig(8, 16, 1), CNBlockConfig(16, None, 1)]
FOLDED = {
    "torchvision ResNet": Case(lambda: tv.resnet18(weights=None, num_classes=N_CLASSES), images(32), "fc.bias"),
    "torchvision MobileNet": Case(mobilenet, images(32), "classifier.3.bias"),
    "torchvision ConvNeXt": Case(
        lambda: tv.ConvNeXt(CONVNEXT_BLOCKS, num_classes=N_CLASSES), images(32), "classifier.2.bias"
    ),
    "torchvision ViT": Case(
        lambda: tv.VisionTransformer(16, 8, 1, 2, 16, 32, num_classes=N_CLASSES), images(16), "heads.head.bias"
    ),
    "torchvision DenseNet": Case(
        lambda: tv.DenseNet(8, (2, 2), 8, 2, num_classes=N_CLASSES), images(32), "classifier.bias"
    ),
    # Three outputs in training mode, one in evaluation mode; its two auxiliary heads look just like the main one.
    "torchvision GoogLeNet": Case(googlenet, images(32), "fc.bias"),
    "timm ResNet": Case(of_timm("test_resnet"), images(32), "fc.bias"),
    "timm ViT": Case(of_timm("test_vit", img_size=32), images(32), "head.bias"),
    "timm ConvNeXt": Case(of_timm("test_convnext"), images(32), "head.fc.bias"),
    "timm EfficientNet": Case(of_timm("test_efficientnet"), images(32), "classifier.bias"),
    "timm NFNet": Case(of_timm("test_nfnet"), images(32), "head.fc.bias"),
    "timm ByobNet": Case(of_timm("test_byobnet"), images(32), "head.fc.bias"),
    "HF BERT": Case(bert, tokens(), "classifier.bias"),
    "HF DistilBERT": Case(distilbert, tokens(), "classifier.bias"),
    "HF RoBERTa": Case(roberta, tokens(), "classifier.out_proj.bias"),
    "HF ViT": Case(vit, pixels(16), "classifier.bias"),
    "HF Swin": Case(swin, pixels(16), "classifier.bias"),
    "HF ConvNeXt": Case(convnext, pixels(32), "classifier.bias"),
    "HF wav2vec 2": Case(wav2vec2, {"input_values": images(16).reshape(4, -1)}, "classifier.bias"),
}


class Aligned(NamedTuple):
    """A network before and after aligning."""

    case: Case
    network: nn.Module
    state_before: dict[str, torch.Tensor]
    modes_before: list[bool]
    random_states: tuple[torch.Tensor, torch.Tensor]
    aligned: nn.Module


def built(build: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return build().train()


@pytest.fixture(scope="module", params=FOLDED)
def pair(request: pytest.FixtureRequest) -> Aligned:
    """Align each network once; tests only read it."""
    case = FOLDED[request.param]
    network = built(case.build)
    next(module for module in network.modules() if not list(module.children())).eval()  # one of many in another mode
    state, modes = copy.deepcopy(network.state_dict()), modes_of(network)
    random_state = torch.get_rng_state()
    aligned = align(network, [case.batch], counts=COUNTS, estimator="prior")
    return Aligned(case, network, state, modes, (random_state, torch.get_rng_state()), aligned)


def modes_of(network: nn.Module) -> list[bool]:
    return [module.training for module in network.modules()]


def output_of(network: nn.Module, batch: Batch) -> Any:
    with torch.no_grad():
        model = copy.deepcopy(network).eval()
        return model(**batch) if isinstance(batch, dict) else model(batch)


def logits_of(network: nn.Module, batch: Batch) -> torch.Tensor:
    output = output_of(network, batch)
    return output if isinstance(output, torch.Tensor) else output.logits


def assert_shifted(corrected: Any, raw: Any) -> None:
    difference = np.asarray(corrected) - np.asarray(raw)
    np.testing.assert_allclose(difference, np.tile(SHIFTS, (4, 1)), rtol=0, atol=1e-5)


def changed_entries(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {
        name for name in before | after
        if name not in before or name not in after or not torch.equal(before[name], after[name])
    }  # fmt: skip


def test_logits_are_raw_logits_plus_shifts(pair: Aligned) -> None:
    np.testing.assert_allclose(pair.aligned.shifts_.values, SHIFTS, atol=1e-12)
    assert_shifted(logits_of(pair.aligned, pair.case.batch), logits_of(pair.network, pair.case.batch))


def test_only_the_bias_of_the_head_differs(pair: Aligned) -> None:
    after = pair.aligned.state_dict()
    assert type(pair.aligned) is type(pair.network)
    assert list(after) == list(pair.state_before)
    assert changed_entries(pair.state_before, after) == {pair.case.bias}
    added = after[pair.case.bias] - pair.state_before[pair.case.bias]
    np.testing.assert_allclose(added, SHIFTS, atol=1e-6)


def test_predictions_and_probabilities_are_those_of_the_shifts(pair: Aligned) -> None:
    raw, corrected = (logits_of(model, pair.case.batch) for model in (pair.network, pair.aligned))
    shifts = pair.aligned.shifts_
    np.testing.assert_array_equal(corrected.argmax(1), shifts.predict(raw))
    np.testing.assert_allclose(corrected.softmax(1), shifts.predict_proba(raw), rtol=0, atol=1e-6)


def test_the_network_given_is_not_disturbed(pair: Aligned) -> None:
    # The state contains the running statistics of batch normalisation and its number of batches.
    assert changed_entries(pair.state_before, pair.network.state_dict()) == set()
    assert modes_of(pair.network) == modes_of(pair.aligned) == pair.modes_before
    assert torch.equal(*pair.random_states)


def test_saved_weights_load_into_a_fresh_network(pair: Aligned, tmp_path: Path) -> None:
    save_file(pair.aligned.state_dict(), tmp_path / "aligned.safetensors")
    fresh = built(pair.case.build, seed=1)
    fresh.load_state_dict(load_file(tmp_path / "aligned.safetensors"))
    assert torch.equal(logits_of(fresh, pair.case.batch), logits_of(pair.aligned, pair.case.batch))


# Exporting takes seconds: one network of each library.
@pytest.mark.parametrize("pair", ["torchvision ConvNeXt", "timm ResNet", "HF BERT"], indirect=True)
def test_the_exported_graph_has_the_same_operations(pair: Aligned) -> None:
    before, after = (targets(exported(model, pair.case.batch)) for model in (pair.network, pair.aligned))
    assert after == before


def exported(network: nn.Module, batch: Batch) -> torch.export.ExportedProgram:
    positional, named = ((), batch) if isinstance(batch, dict) else ((batch,), {})
    return torch.export.export(copy.deepcopy(network).eval(), positional, named)


def targets(program: torch.export.ExportedProgram) -> list[str]:
    return [str(node.target) for node in program.graph.nodes]


@pytest.mark.parametrize("pair", ["torchvision ConvNeXt", "HF BERT"], indirect=True)
def test_onnx_says_the_same(pair: Aligned, tmp_path: Path) -> None:
    program = torch.onnx.export(exported(pair.aligned, pair.case.batch), f=tmp_path / "aligned.onnx", verbose=False)
    assert program is not None
    session = onnxruntime.InferenceSession(tmp_path / "aligned.onnx")
    tensors = pair.case.batch.values() if isinstance(pair.case.batch, dict) else [pair.case.batch]
    feed = {slot.name: tensor.numpy() for slot, tensor in zip(session.get_inputs(), tensors, strict=True)}
    raw = logits_of(pair.network, pair.case.batch)
    corrected = session.run(None, feed)[0]
    assert_shifted(corrected, raw)
    np.testing.assert_array_equal(corrected.argmax(1), pair.aligned.shifts_.predict(raw))


class TestHuggingFaceFiles:
    def test_save_pretrained_keeps_the_correction(self, tmp_path: Path) -> None:
        network = built(bert)
        align(network, [tokens()], counts=COUNTS, estimator="prior").save_pretrained(tmp_path)
        loaded = type(network).from_pretrained(tmp_path)
        assert_shifted(logits_of(loaded, tokens()), logits_of(network, tokens()))

    def test_a_new_bias_is_dropped_and_can_be_folded_in_again(self, tmp_path: Path) -> None:
        network = built(gpt2)
        with pytest.warns(UserWarning, match="`from_pretrained` will drop"):
            aligned = align(network, [tokens()], counts=COUNTS, estimator="prior", head="score")
        aligned.save_pretrained(tmp_path)
        loaded = type(network).from_pretrained(tmp_path)
        assert torch.equal(logits_of(loaded, tokens()), logits_of(network, tokens()))
        with pytest.warns(UserWarning, match="had no bias and has one now"):
            assert fold_shifts(loaded, aligned.shifts_, tokens(), head="score") == "score"
        assert_shifted(logits_of(loaded, tokens()), logits_of(network, tokens()))


@pytest.mark.parametrize("build", [gpt2, llama])
@pytest.mark.parametrize("head", [None, "score"], ids=["head found", "head named"])
def test_a_head_that_scores_every_token(build: Callable[[], nn.Module], head: str | None) -> None:
    """Causal models score all tokens without a bias, and use the score of the last token of each sentence."""
    network = built(build)
    with pytest.warns(UserWarning, match="head 'score' of this model had no bias and has one now"):
        aligned = align(network, [tokens()], counts=COUNTS, estimator="prior", head=head)
    assert type(aligned) is type(network)
    assert changed_entries(network.state_dict(), aligned.state_dict()) == {"score.bias"}
    assert_shifted(logits_of(aligned, tokens()), logits_of(network, tokens()))


@pytest.mark.parametrize(
    ("build", "batch"),
    [
        pytest.param(squeezenet, images(32), id="ReLU after the head"),
        pytest.param(squeezenet, images(64), id="ReLU and mean over pixels after the head"),
        pytest.param(deit_with_teacher, pixels(16), id="mean of two heads"),
    ],
)
def test_where_no_module_makes_the_logits_a_wrapper_does(build: Callable[[], nn.Module], batch: Batch) -> None:
    network = built(build)
    with pytest.warns(UserWarning, match="AlignedModel wrapper adds them instead"):
        aligned = align(network, [batch], counts=COUNTS, estimator="prior")
    assert isinstance(aligned, AlignedModel)
    assert type(aligned.model) is type(network)
    assert changed_entries(network.state_dict(), aligned.model.state_dict()) == set()
    assert_shifted(logits_of(aligned, batch), logits_of(network, batch))


def test_the_wrapper_keeps_the_other_outputs() -> None:
    network = built(deit_with_teacher)
    with pytest.warns(UserWarning, match="AlignedModel wrapper adds them instead"):
        aligned = align(network, [pixels(16)], counts=COUNTS, estimator="prior")
    raw, corrected = (output_of(model, pixels(16)) for model in (network, aligned))
    assert type(corrected) is type(raw)
    assert list(corrected) == list(raw)
    assert torch.equal(corrected.cls_logits, raw.cls_logits)


def test_batches_as_hugging_face_collates_them() -> None:
    """Labels are not passed to the model, which would return a loss, but are part of the evidence."""
    ids = torch.randint(3, 50, (80, 6), generator=torch.Generator().manual_seed(1))
    labels = (torch.arange(80) % 9).clamp(max=N_CLASSES - 1)  # the last class is most frequent, so that labels matter
    network = built(bert)
    loader = [hf.BatchEncoding({"input_ids": ids[part], "labels": labels[part]}) for part in (slice(40), slice(40, 80))]
    shifts = align(network, loader, counts=COUNTS, estimator="marginal", clusters="per-class").shifts_
    evidence = Evidence.from_arrays(logits_of(network, {"input_ids": ids}).numpy(), labels.numpy(), counts=COUNTS)
    expected = fit_shifts(evidence, estimator="marginal", clusters="per-class")
    np.testing.assert_allclose(shifts.values, expected.values, atol=1e-5)
    assert shifts.n_samples == 80


class TestBadInput:
    @pytest.mark.parametrize(
        ("head", "problem"),
        [
            ("nothing", "no module 'nothing'"),
            ("features", r"'features' \(Sequential\) has no bias with one number per class"),
            ("features.0.1", r"'features.0.1' \(BatchNorm2d\) has no bias with one number per class"),
            ("classifier.0", r"'classifier.0' \(Linear\) has no bias with one number per class"),
            # A convolution without a bias, which must not get one of the wrong length.
            ("features.0.0", r"'features.0.0'"),
        ],
    )
    def test_a_head_that_is_none(self, head: str, problem: str) -> None:
        network = built(mobilenet)
        state = copy.deepcopy(network.state_dict())
        with pytest.raises(EnergyAlignError, match=problem):
            align(network, [images(32)], counts=COUNTS, estimator="prior", head=head, inplace=True)
        assert changed_entries(state, network.state_dict()) == set()

    def test_an_auxiliary_head(self) -> None:
        network = built(googlenet)
        state = copy.deepcopy(network.state_dict())
        with pytest.raises(EnergyAlignError, match=r"'aux1.fc2' does not reach the logits"):
            align(network, [images(32)], counts=COUNTS, estimator="prior", head="aux1.fc2", inplace=True)
        assert changed_entries(state, network.state_dict()) == set()

    def test_counts_of_other_classes(self) -> None:
        with pytest.raises(EnergyAlignError, match=r"counts must have shape \(5,\), one per class, got \(1000,\)"):
            align(built(mobilenet), [images(32)], counts=np.ones(1000), estimator="prior")

    @pytest.mark.parametrize("batch", [{}, {"attention_mask": torch.ones(4, 6)}], ids=["labels alone", "mask alone"])
    def test_missing_inputs_are_named_by_the_model(self, batch: dict[str, torch.Tensor]) -> None:
        network = built(bert)
        with pytest.raises(ValueError, match="input_ids"):
            align(network, [batch | {"labels": torch.arange(4)}], counts=COUNTS, estimator="prior")
        assert all(modes_of(network))

    def test_a_model_told_to_return_tuples(self) -> None:
        with pytest.raises(EnergyAlignError, match=r"must return a tensor of logits, .* got a tuple of 1"):
            align(built(lambda: bert(return_dict=False)), [tokens()], counts=COUNTS, estimator="prior")

    def test_a_model_that_labels_every_token(self) -> None:
        network = built(lambda: hf.BertForTokenClassification(hf.BertConfig(**SMALL_TEXT)))
        aligned = align(network, [tokens()], counts=COUNTS, estimator="prior")
        difference = aligned.classifier.bias - network.classifier.bias
        np.testing.assert_allclose(difference.detach().numpy(), aligned.shifts_.values, atol=1e-6)
