"""The paper's settings for each number of steps, as literal numbers, and their command-line options."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from energyalign import EnergyAlignError
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.incremental.config import IncrementalConfig
from energyalign.experiments.incremental.config import config_of as config_of_method
from energyalign.experiments.incremental.learners import LEARNERS, find_learner
from energyalign.experiments.incremental.memory import MemoryPlan
from energyalign.experiments.incremental.methods import METHODS
from energyalign.experiments.incremental.paper import PAPER
from energyalign.experiments.incremental.presets import PRESETS, Preset, preset_for, selection_of
from energyalign.experiments.nets.registry import BACKBONES

MEMORY = MemoryPlan("random", 2000)


def config_of(preset: Preset, learner: str, corrector: str, **more: Any) -> IncrementalConfig:
    return IncrementalConfig.from_preset(
        preset, find_learner(learner), seed=0, memory=MEMORY, corrector=corrector, **more
    )


@pytest.mark.parametrize(
    ("n_steps", "lambda_base", "weight_decay", "eta"),
    [(2, 1.0, 1e-4, 0.3), (5, 0.75, 2e-4, 0.3), (10, 0.5, 4e-4, 0.5), (20, 0.5, 4e-4, 0.5)],
)
def test_cifar_in_so_many_steps(n_steps: int, lambda_base: float, weight_decay: float, eta: float) -> None:
    preset = PRESETS[f"cifar100-il-{n_steps}"]
    optimizer: Any = preset.recipe.optimizer
    assert (preset.dataset, preset.n_steps, preset.backbone, preset.head) == ("cifar100", n_steps, "resnet32", "cosine")
    assert (preset.lambda_base, optimizer.weight_decay, preset.weight_decay_factor) == (lambda_base, weight_decay, eta)
    assert (preset.recipe.epochs, preset.recipe.batch_size, preset.memory_total) == (250, 32, 2000)
    assert (optimizer.momentum, optimizer.nesterov) == (0.9, False)
    assert (preset.subset, preset.order) == ("all", "seed1993")


def test_cifar_learns_at_a_tenth_after_100_150_and_200_epochs() -> None:
    rates = [PRESETS["cifar100-il-10"].recipe.lr(epoch) for epoch in (1, 100, 101, 150, 151, 200, 201, 250)]
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001, 0.0001, 0.0001])


@pytest.mark.parametrize(
    ("cell", "memory", "eta", "subset"),
    [("imagenet100-il-10", 2000, 0.5, "seed1993"), ("imagenet-il-10", 20000, 0.25, "all")],
)
def test_imagenet(cell: str, memory: int, eta: float, subset: str) -> None:
    preset = PRESETS[cell]
    optimizer: Any = preset.recipe.optimizer
    assert (preset.dataset, preset.n_steps, preset.backbone, preset.head) == ("imagenet", 10, "resnet18", "cosine")
    assert (preset.lambda_base, optimizer.weight_decay, preset.weight_decay_factor) == (1.0, 5e-4, eta)
    assert (preset.recipe.epochs, preset.recipe.batch_size, preset.memory_total) == (100, 256, memory)
    assert (optimizer.momentum, optimizer.nesterov) == (0.9, False)
    assert (preset.subset, preset.order) == (subset, "seed1993")
    rates = [preset.recipe.lr(epoch) for epoch in (1, 30, 31, 60, 61, 80, 81, 90, 91, 100)]
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 1e-3, 1e-3, 1e-4, 1e-4, 1e-5, 1e-5])


def test_a_shorter_run_learns_at_the_same_rates_for_the_same_parts_of_its_way() -> None:
    recipe = PRESETS["cifar100-il-10"].recipe.lasting(5)
    assert [recipe.lr(epoch) for epoch in range(1, 6)] == pytest.approx([0.1, 0.1, 0.01, 0.001, 0.0001])


def test_weight_decay_falls_from_step_to_step() -> None:
    config = config_of(PRESETS["cifar100-il-5"], "distill", "ea")
    decays = [config.recipe_of(step).optimizer.weight_decay for step in (1, 2, 3)]  # type: ignore[attr-defined]
    assert decays == pytest.approx([2e-4, 6e-5, 1.8e-5])
    assert replace(config.recipe_of(3), optimizer=config.recipe.optimizer) == config.recipe  # and nothing else does


def test_every_cell_of_the_paper_is_a_preset() -> None:
    assert set(PAPER) <= set(PRESETS)
    assert PRESETS["cifar100-il-5"].paper["ea"].average1 == 66.6
    assert PRESETS["digits-il-5"].paper == {}


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda preset: preset.name)
def test_presets_name_what_exists_and_quick_is_no_longer(preset: Preset) -> None:
    quick = preset.quick()
    assert {preset.backbone, quick.backbone} <= set(BACKBONES)
    assert quick.recipe.epochs <= preset.recipe.epochs
    assert (quick.name, quick.n_steps, quick.memory_total) == (preset.name, preset.n_steps, preset.memory_total)


def test_by_dataset() -> None:
    assert preset_for("cifar100", None) is PRESETS["cifar100-il-10"]
    assert preset_for("digits", None) is PRESETS["digits-il-5"]
    assert preset_for("imagenet100", None) is PRESETS["imagenet100-il-10"]
    assert preset_for("imagenet1000", None) is preset_for("imagenet", None) is PRESETS["imagenet-il-10"]


@pytest.mark.parametrize("n_steps", [2, 5, 10, 20])
def test_by_dataset_and_steps(n_steps: int) -> None:
    assert preset_for("cifar100", n_steps) == PRESETS[f"cifar100-il-{n_steps}"]


@pytest.mark.parametrize(("n_steps", "like"), [(3, 2), (4, 5), (7, 5), (8, 10), (14, 10), (16, 20), (50, 20)])
def test_another_number_of_steps_has_the_settings_of_the_nearest(n_steps: int, like: int) -> None:
    preset = preset_for("cifar100", n_steps)
    assert (preset.name, preset.n_steps, preset.paper) == (f"cifar100-il-{n_steps}", n_steps, {})
    assert replace(preset, name=f"cifar100-il-{like}", n_steps=like) == PRESETS[f"cifar100-il-{like}"]


def test_selections_of_imagenet_keep_their_names_at_other_steps() -> None:
    assert (preset_for("imagenet100", 5).name, preset_for("imagenet100", 5).subset) == ("imagenet100-il-5", "seed1993")
    assert (preset_for("imagenet", 5).name, preset_for("imagenet", 5).subset) == ("imagenet-il-5", "all")
    assert selection_of("imagenet100") == ("imagenet", "seed1993")
    assert selection_of("imagenet1000") == ("imagenet", "all")
    assert selection_of("digits") is None


def test_by_name() -> None:
    assert preset_for("cifar100-il-20", None) is preset_for("cifar100-il-20", 20) is PRESETS["cifar100-il-20"]
    with pytest.raises(EnergyAlignError, match="cifar100-il-20 has a fixed number of steps: leave --steps out"):
        preset_for("cifar100-il-20", 10)


def test_a_users_own_images() -> None:
    own = preset_for("folder:/data/my images", None)
    assert (own.name, own.dataset, own.n_steps) == ("folder-my-images-il-5", "folder:/data/my images", 5)
    assert (own.order, own.subset, own.paper) == ("natural", "all", {})
    own = preset_for("parquet:birds", 3)
    assert (own.name, own.n_steps) == ("parquet-birds-il-3", 3)
    assert preset_for("parquet:birds", 0).n_steps == 0  # refused, and not treated as a missing number


def test_memory_of_a_set_without_a_number_is_a_twenty_fifth_and_at_least_one_for_each_class() -> None:
    own = preset_for("folder:images", None)
    assert own.memory_for(50_000, 100) == 2000
    assert own.memory_for(99, 4) == 4
    assert PRESETS["cifar100-il-5"].memory_for(2500, 100) == 2000


def test_what_there_is_not() -> None:
    with pytest.raises(EnergyAlignError, match=r"no preset for 'mnist': choose one of .*imagenet100.* folder:PATH"):
        preset_for("mnist", None)


def test_rows_that_change_nothing_of_the_next_step_share_a_run() -> None:
    preset = PRESETS["digits-il-5"]
    fine_tuned = [config_of(preset, "fine-tune", name) for name in ("raw", "logit-adjustment", "ea", "il2m", "scail")]
    assert len(set(fine_tuned)) == 1
    assert (fine_tuned[0].fed_back, fine_tuned[0].evidence) == ("raw", None)
    raw, ea, prior = (config_of(preset, "distill", name) for name in ("raw", "ea", "logit-adjustment"))
    assert raw == prior
    assert replace(ea, fed_back="raw", evidence=None) == raw
    assert (ea.fed_back, ea.evidence) == ("ea", EvidencePlan())


def test_the_student_is_changed_whether_there_is_a_teacher_or_not() -> None:
    assert config_of(PRESETS["digits-il-5"], "fine-tune", "wa").fed_back == "wa"


def test_what_needs_held_out_images_trains_without_them() -> None:
    preset = PRESETS["digits-il-5"]
    behind_fine_tuning = config_of(preset, "fine-tune", "bic")
    assert (behind_fine_tuning.fed_back, behind_fine_tuning.held_out) == ("raw", 0.1)
    assert config_of(preset, "fine-tune", "raw").held_out == 0


def test_another_evidence_makes_another_training_only_where_it_is_fed_back() -> None:
    preset, plan = PRESETS["digits-il-5"], EvidencePlan(7)
    assert config_of(preset, "distill", "ea", evidence=plan) != config_of(preset, "distill", "ea")
    assert config_of(preset, "fine-tune", "ea", evidence=plan) == config_of(preset, "fine-tune", "ea")


@pytest.mark.parametrize("name", METHODS)
def test_the_config_of_every_method_comes_back_from_its_json(name: str) -> None:
    method = METHODS[name]
    for preset in PRESETS.values():
        config = IncrementalConfig.from_preset(
            preset.with_head(method.head), LEARNERS[method.learner], seed=3,
            memory=MemoryPlan.parse(method.memory, 2000), corrector=method.corrector, learned_scale=True,
        )  # fmt: skip
        assert IncrementalConfig.from_json(config.to_json()) == config
        assert "compile" not in config.to_json()  # so that runs from before this option stay valid
        if name != "rps":  # its networks cannot be compiled
            compiled = replace(config, compile=True)
            assert IncrementalConfig.from_json(compiled.to_json()) == compiled


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": -1}, "the seed must be >= 0, got -1"),
        ({"scale": 0.0}, "the scale must be a positive number, got 0"),
        ({"lambda_base": 1.5}, "between 0 and 1"),
    ],
)
def test_numbers_that_make_no_sense(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(EnergyAlignError, match=message):
        replace(config_of(PRESETS["digits-il-5"], "distill", "ea"), **changes)


def test_joint_training_begins_anew_and_so_does_its_weight_decay() -> None:
    joint = config_of_method(METHODS["joint"], PRESETS["cifar100-il-10"], seed=0)
    assert joint.recipe_of(1) == joint.recipe_of(10)
    distill = config_of_method(METHODS["ea"], PRESETS["cifar100-il-10"], seed=0)
    assert distill.recipe_of(10).optimizer.weight_decay == pytest.approx(4e-4 * 0.5**9)


def test_what_is_fed_back_may_be_asked_for() -> None:
    asked = config_of_method(METHODS["distill"], PRESETS["digits-il-5"], seed=0, fed_back="ea-marginal")
    assert asked.fed_back == "ea-marginal"
    assert asked.evidence is not None
    held = config_of_method(METHODS["distill"], PRESETS["digits-il-5"], seed=0, fed_back="bic")
    assert held.held_out == pytest.approx(0.1)
    none = config_of_method(METHODS["ea"], PRESETS["digits-il-5"], seed=0, fed_back="raw")
    assert (none.fed_back, none.evidence) == ("raw", None)


def test_without_a_teacher_nothing_can_be_fed_back_to_it() -> None:
    with pytest.raises(EnergyAlignError, match="fine-tune has no teacher"):
        config_of_method(METHODS["fine-tuning"], PRESETS["digits-il-5"], seed=0, fed_back="ea")
    student = config_of_method(METHODS["fine-tuning"], PRESETS["digits-il-5"], seed=0, fed_back="wa")
    assert student.fed_back == "wa"
