"""Two real processes share images and evidence, and both get the result of a single process, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from two_processes import in_processes

MEASURED = """
from safetensors.numpy import save_file
from untrained_run import images_of_test, untrained_run
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.correctors.tau_norm import TauNorm

def work(fabric, folder):
    trained = untrained_run(folder / "run", head="cosine")
    shown = []
    first = next(part for part in trained.network.modules() if isinstance(part, torch.nn.Conv2d))
    first.register_forward_hook(lambda _first, images, _maps: shown.append(len(images[0])))
    plan, test = EvidencePlan(60, "one"), images_of_test(trained)
    few = test.subset(range(7))
    evidence, features = trained.evidence(plan), trained.features(test)
    values = {
        "labels": evidence.labels, "energies": evidence.free_energy.values,
        "test": trained.scores(trained.network.head, features),
        "few": trained.features(few, trained.for_inference),
        "1,001": trained.features(repeated(test), trained.for_inference),
        "tau": trained.scores(TauNorm().correct(trained, plan).network.head, features),
    }
    rank = fabric.global_rank
    save_file({name: np.ascontiguousarray(value) for name, value in values.items()}, folder / f"told{rank}.safetensors")
    (folder / f"shown{rank}.json").write_text(json.dumps(shown))

def repeated(images):
    return images.subset(np.arange(1001) % len(images))
"""


def test_all_end_with_what_one_process_has(tmp_path: Path) -> None:
    for n_processes in (1, 2):
        in_processes(MEASURED, tmp_path / str(n_processes), n_processes)
    alone = load_file(tmp_path / "1" / "told0.safetensors")
    assert len(alone["labels"]) == 600
    for rank in range(2):
        shared = load_file(tmp_path / "2" / f"told{rank}.safetensors")
        assert shared.keys() == alone.keys()
        for name, value in alone.items():
            np.testing.assert_array_equal(shared[name], value, err_msg=name)
    shown = [json.loads((tmp_path / "2" / f"shown{rank}.json").read_text()) for rank in range(2)]
    # Evidence, 500 test images, seven images, 1,001 images of which the last joins the batch before it.
    assert shown == [[256, 500], [256, 88, 500, 7, 501]]


READ = """
from imagenet_tree import make_imagenet_tree
from energyalign.experiments.data.sources import open_source
from energyalign.experiments.engine.outputs import drawn_outputs
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.outputs import outputs
from energyalign.experiments.engine.experiment import refuse_unreadable

def refusal(work, *arguments):
    try:
        work(*arguments)
    except ValueError as error:
        return [type(error).__name__, str(error)]

def work(fabric, folder):
    rank = fabric.global_rank
    if rank == 0:
        make_imagenet_tree(folder / "data", n_classes=2, per_class=2)
    fabric.barrier()
    images = open_source("imagenet", folder / "data").load("train")
    assert refusal(refuse_unreadable, images) is None
    fabric.barrier()
    if rank == 0:
        max((folder / "data" / "train").rglob("*.JPEG")).write_bytes(b"no picture")
    fabric.barrier()
    told = [refusal(refuse_unreadable, images), refusal(outputs, torch.nn.Flatten(), images)]
    told.append(refusal(drawn_outputs, torch.nn.Flatten(), images, EvidencePlan(64, "none"), 0))
    (folder / f"told{rank}.json").write_text(json.dumps(told))
"""


def test_a_file_that_one_of_them_cannot_read_stops_both(tmp_path: Path) -> None:
    in_processes(READ, tmp_path)
    first, second = (json.loads((tmp_path / f"told{rank}.json").read_text()) for rank in range(2))
    assert first == [["AnotherRankFailed", "rank 1 failed: see its own message."]] * 3
    assert second[0][0] == "BadFilesError"
    assert "1 of 2 files cannot be decoded" in second[0][1]
    assert second[1][1].startswith("cannot read the image")
    assert second[2][1].startswith("cannot read the image")
