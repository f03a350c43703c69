"""The GPUs that a process sees."""

from __future__ import annotations

from energyalign.experiments.sweep.processes import visible_gpus


def test_each_place_has_its_own() -> None:
    assert [visible_gpus(slot, 2, {})["CUDA_VISIBLE_DEVICES"] for slot in range(3)] == ["0,1", "2,3", "4,5"]


def test_of_those_that_a_scheduler_gave_us() -> None:
    given = {"CUDA_VISIBLE_DEVICES": "3,5,GPU-7"}
    assert [visible_gpus(slot, 1, given)["CUDA_VISIBLE_DEVICES"] for slot in range(3)] == ["3", "5", "GPU-7"]


def test_without_gpus_nothing_is_changed() -> None:
    assert visible_gpus(1, 0, {"CUDA_VISIBLE_DEVICES": "3"}) == {}
