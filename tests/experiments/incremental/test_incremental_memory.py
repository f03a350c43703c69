"""Exemplars: how many of each class, and that shrinking keeps the first ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from energyalign import EnergyAlignError
from energyalign.experiments.incremental.memory import Memory, MemoryPlan, n_held_out


def lists(first: int, n_classes: int, per_class: int) -> tuple[np.ndarray, ...]:
    return tuple(np.arange(per_class) + per_class * (first + k) for k in range(n_classes))


def test_counts_of_cifar_in_ten_steps() -> None:
    """2,000 exemplars: 200, 100, 66, ... of each old class in steps 2 to 10, and 2,000 in total in every step."""
    plan, memory = MemoryPlan("random", 2000), Memory()
    smallest = []
    for step in range(1, 10):
        memory = memory.after(Memory(lists(10 * (step - 1), 10, 500), ((),) * 10), plan, 0.0)
        smallest.append(int(memory.counts.min()))
        assert len(memory.indices) == 2000
        assert memory.counts.max() - memory.counts.min() <= 1
    assert smallest == [200, 100, 66, 50, 40, 33, 28, 25, 22]


def test_what_is_left_over_goes_to_the_classes_that_came_first() -> None:
    assert MemoryPlan("random", 11).quotas(np.full(4, 500)).tolist() == [3, 3, 3, 2]


def test_a_class_keeps_no_more_than_it_has() -> None:
    assert MemoryPlan("random", 40).quotas(np.array([3, 500])).tolist() == [3, 20]


@given(st.integers(1, 200), st.integers(1, 30), st.integers(1, 30))
def test_quotas_never_rise_and_never_exceed_the_total(total: int, before: int, more: int) -> None:
    plan = MemoryPlan("random", total)
    earlier, later = plan.quotas(np.full(before, 1000)), plan.quotas(np.full(before + more, 1000))
    assert earlier.sum() == total == later.sum()
    assert (later[:before] <= earlier).all()


@given(st.integers(8, 100), st.lists(st.integers(1, 3), min_size=2, max_size=4))
def test_shrinking_keeps_the_first_of_each_list(total: int, sizes: list[int]) -> None:
    plan, memory, first = MemoryPlan("herding", total), Memory(), 0
    for size in sizes:
        new = Memory(lists(first, size, 120), ((),) * size)
        grown = memory.after(new, plan, 0.0)
        for before, after in zip(memory.exemplars + new.exemplars, grown.exemplars, strict=True):
            assert after.tolist() == before[: len(after)].tolist()
        memory, first = grown, first + size


def test_none_keeps_nothing_and_all_keeps_everything() -> None:
    new = Memory(lists(0, 3, 5), ((),) * 3)
    assert len(Memory().after(new, MemoryPlan("none"), 0.0).indices) == 0
    assert Memory().after(new, MemoryPlan("all"), 0.0).indices.tolist() == list(range(15))


def test_held_out_images_are_part_of_the_total() -> None:
    """BiC: 200 exemplars of each class are 180 to train on and 20 to hold out; 100 are 90 and 10."""
    plan = MemoryPlan("herding", 2000)
    new = Memory(lists(0, 10, 480), tuple(np.arange(20) - 20 * (k + 1) for k in range(10)))
    memory = Memory().after(new, plan, 0.1)
    assert {len(one) for one in memory.exemplars} == {180}
    assert {len(one) for one in memory.held_out} == {20}
    memory = memory.after(Memory(lists(10, 10, 490), tuple(np.arange(10) for _ in range(10))), plan, 0.1)
    assert {len(one) for one in memory.exemplars} == {90}
    assert {len(one) for one in memory.held_out} == {10}


def test_at_least_one_is_held_out_and_one_is_left() -> None:
    assert n_held_out(MemoryPlan("herding", 40), 8, 0.1) == 1
    assert n_held_out(MemoryPlan("herding", 40), 8, 0.0) == 0
    with pytest.raises(EnergyAlignError, match="at least herding:40"):
        n_held_out(MemoryPlan("herding", 39), 20, 0.1)
    with pytest.raises(EnergyAlignError, match="the memory none cannot hold any out"):
        n_held_out(MemoryPlan("none"), 20, 0.1)


def test_json_round_trip() -> None:
    memory = Memory(lists(0, 2, 3), (np.array([7]), np.array([8])))
    again = Memory.from_json(memory.to_json())
    assert again.to_json() == memory.to_json()
    assert again.indices.dtype == np.int64


@pytest.mark.parametrize(
    ("text", "selection", "total"),
    [("random:500", "random", 500), ("herding", "herding", 40), ("none", "none", 0), ("all", "all", 0)],
)
def test_as_it_is_written(text: str, selection: str, total: int) -> None:
    plan = MemoryPlan.parse(text, 40)
    assert (plan.selection, plan.total) == (selection, total)
    assert MemoryPlan.parse(str(plan), 40) == plan


@pytest.mark.parametrize(
    "text", ["random:0", "random:many", "random:", "newest:5", "none:5", "random:-3", "random:1.5"]
)
def test_a_memory_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(EnergyAlignError, match="memory"):
        MemoryPlan.parse(text, 40)


def test_a_memory_too_small_for_the_classes_is_refused() -> None:
    MemoryPlan("random", 90).check(90)
    MemoryPlan("none").check(90)
    with pytest.raises(EnergyAlignError, match=r"--memory random:90 or more"):
        MemoryPlan("random", 89).check(90)
