"""Logits in the page: all of them if they fit, otherwise those of classes that could win."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from energyalign.report.page.view import MIN_CANDIDATES, EncodedLogits, encode_logits, evenly_over_classes

N_IMAGES, N_CLASSES = 300, 120


@pytest.fixture
def logits():
    return (3 * np.random.default_rng(0).standard_normal((N_IMAGES, N_CLASSES))).astype(np.float32)


@pytest.fixture
def labels():
    return np.arange(N_IMAGES) % N_CLASSES


def in_blocks(logits):
    return (logits[start : start + 70] for start in range(0, len(logits), 70))


def decode(encoded: EncodedLogits, n_classes: int = N_CLASSES) -> np.ndarray:
    """Decode as the page does: a class that was left out cannot win."""
    if encoded.classes is None:
        return np.frombuffer(encoded.values, "<f4").reshape(-1, n_classes)
    shape = (-1, encoded.n_candidates)
    classes = np.frombuffer(encoded.classes, "<u2").reshape(shape)
    values = -np.frombuffer(encoded.values, "<u2").reshape(shape).astype(np.float64) * encoded.step
    dense = np.full((len(classes), n_classes), -np.inf)
    np.put_along_axis(dense, classes.astype(np.int64), values, axis=1)
    return dense


def test_all_logits_to_the_last_bit(logits, labels) -> None:
    encoded = encode_logits(in_blocks(logits), labels, [], N_CLASSES)
    np.testing.assert_array_equal(decode(encoded), logits)
    assert encoded.note == ""
    assert base64.b64decode(encoded.to_json()["values"]) == logits.tobytes()


def test_the_winner_raw_and_under_every_shift_is_kept(logits, labels) -> None:
    shifts = [5 * np.random.default_rng(k).standard_normal(N_CLASSES) for k in (1, 2)]
    budget = N_IMAGES * 30 * 4
    encoded = encode_logits(in_blocks(logits), labels, shifts, N_CLASSES, budget)
    assert len(encoded.kept) == N_IMAGES
    assert encoded.n_candidates == 30
    assert len(encoded.values) + len(encoded.classes or b"") <= budget
    found = decode(encoded)
    for shift in (np.zeros(N_CLASSES), *shifts):
        np.testing.assert_array_equal((found + shift).argmax(axis=1), (logits + shift).argmax(axis=1))
    assert "the 30 of 120 classes that come closest" in encoded.note
    assert "images, as many of each class" not in encoded.note


def test_images_are_left_out_before_too_few_classes_are_kept(logits, labels) -> None:
    encoded = encode_logits(in_blocks(logits), labels, [], N_CLASSES, budget=100 * MIN_CANDIDATES * 4)
    assert len(encoded.kept) == 100
    assert encoded.n_candidates == MIN_CANDIDATES
    np.testing.assert_array_equal(decode(encoded).argmax(axis=1), logits[encoded.kept].argmax(axis=1))
    assert "holds 100 of the 300 images" in encoded.note


def test_few_classes_are_all_kept(logits, labels) -> None:
    encoded = encode_logits([logits[:, :7]], labels % 7, [], 7, budget=50 * 7 * 4)
    assert encoded.n_candidates == 7
    assert len(encoded.kept) == 50
    rounded = decode(encoded, 7)
    true = logits[encoded.kept, :7]
    np.testing.assert_allclose(rounded, true - true.max(axis=1, keepdims=True), atol=encoded.step)
    assert "classes, of" not in encoded.note
    assert "rounded" in encoded.note


@pytest.mark.parametrize("masked", [-1e9, -np.inf])
def test_a_masked_class_does_not_spoil_the_others(logits, labels, masked) -> None:
    """Otherwise the step would be so large that all other logits were equal."""
    logits[:, 5] = masked
    shifts = [5 * np.random.default_rng(1).standard_normal(N_CLASSES)]
    encoded = encode_logits(in_blocks(logits), labels, shifts, N_CLASSES, N_IMAGES * 100 * 4)
    found = decode(encoded)
    for shift in (np.zeros(N_CLASSES), *shifts):
        np.testing.assert_array_equal((found + shift).argmax(axis=1), (logits + shift).argmax(axis=1))
    assert 0 < encoded.step < 0.01


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(1, 70))
def test_chosen_evenly(labels, most) -> None:
    values = np.array(labels)
    kept = evenly_over_classes(values, most)
    assert len(kept) == min(most, len(values))
    assert sorted(set(kept.tolist())) == kept.tolist()
    chosen, available = np.bincount(values[kept], minlength=6), np.bincount(values, minlength=6)
    # Classes have equally many images, except where one has no more or the last one did not fit.
    for few in range(6):
        if chosen[few] < available[few]:
            assert chosen[few] >= chosen.max() - 1
