"""Classes in steps: sizes, order, labels, and the images of each step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from incremental_run import digits_config
from tiny_step import tiny_images

from energyalign import EnergyAlignError
from energyalign.experiments.incremental.learners import find_learner
from energyalign.experiments.incremental.memory import Memory
from energyalign.experiments.incremental.stream import ClassStream, images_of_step, make_stream, step_sizes


def stream_of(counts: tuple[int, ...], *, order: str = "natural", subset: str = "all", n_steps: int = 2) -> ClassStream:
    return make_stream(
        tiny_images(counts), tiny_images((1,) * len(counts)), subset=subset, order=order, n_steps=n_steps
    )


def test_classes_are_shared_out_evenly_and_the_first_steps_have_the_rest() -> None:
    assert step_sizes(100, 10) == (10,) * 10
    assert step_sizes(10, 3) == (4, 3, 3)
    assert step_sizes(6, 5) == (2, 1, 1, 1, 1)


@given(st.integers(2, 60), st.integers(2, 60))
def test_every_class_comes_once(n_classes: int, n_steps: int) -> None:
    if n_steps >= n_classes:
        with pytest.raises(
            EnergyAlignError, match=f"--steps {n_classes - 1} or fewer" if n_classes > 2 else "at least 3 classes"
        ):
            step_sizes(n_classes, n_steps)
        return
    sizes = step_sizes(n_classes, n_steps)
    assert sum(sizes) == n_classes
    assert len(sizes) == n_steps
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 1


def test_one_step_is_refused() -> None:
    with pytest.raises(EnergyAlignError, match="--steps must be >= 2"):
        step_sizes(10, 1)


def test_labels_are_places_in_the_order_of_arrival() -> None:
    stream = stream_of((3, 4, 5, 6), order="seed:0")
    arrival = np.random.RandomState(0).permutation(4)
    assert stream.order == tuple(arrival)
    assert np.bincount(stream.train.labels).tolist() == [(3, 4, 5, 6)[k] for k in arrival]
    assert stream.train.class_names == tuple(f"class {k}" for k in arrival)
    original = tiny_images((3, 4, 5, 6))
    for place, k in enumerate(arrival):
        mine = stream.train.images[stream.train.labels == place]
        assert (mine == original.images[original.labels == k]).all()


def test_a_subset_is_numbered_anew_before_it_is_ordered() -> None:
    stream = stream_of((2,) * 6, subset="first:4", order="seed:3")
    assert stream.order == tuple(np.random.RandomState(3).permutation(4))
    assert len(stream.train) == 8
    assert len(stream.test) == 4


def test_a_step_gives_its_own_images_and_tests_all_classes_seen() -> None:
    stream = stream_of((3, 4, 5, 6), n_steps=2)
    second = stream.seen(stream.new_indices(2), 2)
    assert sorted(set(second.labels.tolist())) == [2, 3]
    assert second.n_classes == 4
    assert stream.test_images(1).labels.tolist() == [0, 1]
    assert stream.test_images(1).n_classes == 2
    assert stream.test_images(2).labels.tolist() == [0, 1, 2, 3]


def test_a_class_without_test_images_is_refused_by_name() -> None:
    test = tiny_images((1, 1, 1))
    test = test.subset(np.flatnonzero(test.labels != 1))
    with pytest.raises(EnergyAlignError, match="no image of class 1"):
        make_stream(tiny_images((2, 2, 2)), test, subset="all", order="natural", n_steps=2)


def test_the_manifest_tells_orders_apart() -> None:
    one, other = stream_of((2,) * 4), stream_of((2,) * 4, order="seed:1")
    assert one.manifest("tiny").sha256 == stream_of((2,) * 4).manifest("tiny").sha256
    assert one.manifest("tiny").sha256 != other.manifest("tiny").sha256


def config_holding_out(part: float):

    return replace(digits_config(find_learner("fine-tune"), epochs=1, memory="random:8"), held_out=part)


def test_the_images_of_a_step_are_new_ones_and_the_memory() -> None:
    stream = stream_of((3, 4, 5, 6), n_steps=2)
    memory = Memory((np.array([1]), np.array([4, 6])), ((), ()))
    images = images_of_step(stream, 2, memory, config_holding_out(0.0))
    assert images.indices.tolist() == [*range(7, 18), 1, 4, 6]
    assert [len(one) for one in images.new_held_out] == [0, 0]


def test_as_many_images_of_new_classes_are_held_out_as_of_old_ones() -> None:
    stream = stream_of((30,) * 4, n_steps=2)
    config = config_holding_out(0.5)  # 8 exemplars of 2 old classes: 4 each, 2 of them held out
    first = images_of_step(stream, 1, Memory(), config)
    assert [len(one) for one in first.new_held_out] == [2, 2]
    assert not set(first.indices) & set(np.concatenate(first.new_held_out))
    assert len(first.indices) == 56
    memory = Memory(tuple(np.arange(2) + 30 * k for k in range(2)), first.new_held_out)
    second = images_of_step(stream, 2, memory, config)
    assert np.bincount(stream.train.labels[second.all_held_out(memory)]).tolist() == [2, 2, 2, 2]


def test_a_class_that_would_be_held_out_whole_is_refused() -> None:
    stream = stream_of((30, 30, 1, 30), n_steps=2)
    memory = Memory((np.arange(2), np.arange(30, 32)), (np.array([4]), np.array([40])))
    with pytest.raises(EnergyAlignError, match="class 2 has 1 training image,"):
        images_of_step(stream, 2, memory, config_holding_out(0.3))
