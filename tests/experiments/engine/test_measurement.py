"""What a run records about its environment."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import torch

from energyalign.experiments.engine import measurement
from energyalign.experiments.engine.measurement import environment

CPU = torch.device("cpu")


def test_packages_that_decode_images_and_fit_are_part_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "timm":
            raise PackageNotFoundError
        return f"1.0 of {name}"

    before = environment(CPU)
    monkeypatch.setattr(measurement, "version", version)
    after = environment(CPU)
    assert after["pillow"] == "1.0 of pillow" != before["pillow"]
    assert after["simplejpeg"] == "1.0 of simplejpeg"
    assert "timm" not in after


def test_another_processor_of_the_same_instructions_is_another_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    def about(text: str) -> str:
        monkeypatch.setattr(Path, "read_text", lambda *_, **__: text)
        return str(environment(CPU)["cpu"])

    assert about("model name\t: One\nflags\t: avx2\n").endswith(" One")
    assert about("model name\t: Two\n").endswith(" Two")
    assert about("processor\t: 0\n") + " Two" == about("model name\t: Two\n")  # without a name, as on some ARM
