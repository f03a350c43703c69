"""Colours are log(1 + n) of the numbers of images, on one scale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from drawn import Stored, is_labelled, logits, panels, row, shifted
from made_up_run import made_up_run
from safetensors.numpy import load_file
from sklearn.metrics import confusion_matrix

from energyalign.report.figures import FIGURES


def image(axes: Any) -> Any:
    return np.asarray(axes.images[0].get_array())


def test_mean_over_seeds_most_images_first(long_tail: Stored) -> None:
    runs = long_tail.below("a-ce")
    figure = FIGURES["confusion"].draw(runs)
    assert is_labelled(figure)
    order = np.argsort(-np.array(row(runs[0].path, "raw")["counts"]), kind="stable")
    for axes, corrector in zip(panels(figure), ("raw", "ea"), strict=True):
        matrices = [confusion_matrix(logits(run.path)[1], shifted(run.path, corrector).argmax(axis=1)) for run in runs]
        np.testing.assert_allclose(image(axes), np.log(1 + np.mean(matrices, axis=0)[order][:, order]))
    assert len({axes.images[0].get_clim() for axes in panels(figure)}) == 1
    (bar,) = [axes for axes in figure.axes if axes not in panels(figure)]
    assert bar.get_ylabel() == "test images (log scale), mean over seeds"
    shown = [float(text.get_text()) for text in bar.get_yticklabels()]
    np.testing.assert_allclose(bar.get_yticks(), np.log1p(shown))


def test_steps_show_their_stored_predictions_and_divide_old_from_new(incremental: Stored) -> None:
    (run,) = incremental.below("ea")
    figure = FIGURES["confusion"].draw([run])
    _, labels = logits(run.path / "step-05")
    for axes, name in zip(panels(figure), ("raw", "ea-two-5"), strict=True):
        stored = load_file(run.path / "step-05" / "predictions" / f"{name}.safetensors")["predictions"]
        np.testing.assert_allclose(image(axes), np.log1p(confusion_matrix(labels, stored)))
        across, down = axes.lines
        assert list(across.get_ydata()) == [7.5, 7.5]
        assert list(down.get_xdata()) == [7.5, 7.5]
    assert panels(figure)[0].yaxis_inverted()  # the first class is at the top


def test_more_than_a_hundred_classes_are_blocks_and_say_so(tmp_path: Path) -> None:
    run = made_up_run(tmp_path / "run", [f"class {k}" for k in range(250)], per_class=3)
    figure = FIGURES["confusion"].draw([run])
    axes = panels(figure)[1]
    matrix = confusion_matrix(logits(run.path)[1], shifted(run.path, "ea").argmax(axis=1), labels=range(250))
    order = np.argsort(-np.array(row(run.path, "raw")["counts"]), kind="stable")
    padded = np.pad(matrix[order][:, order], (0, 2))  # 84 blocks of 3
    np.testing.assert_allclose(image(axes), np.log1p(padded.reshape(84, 3, 84, 3).sum(axis=(1, 3))))
    assert axes.get_xlabel() == "predicted class\nmost images first, 3 per square"
    assert panels(figure)[0].get_ylabel() == "true class, 3 per square"
    assert axes.get_xlim() == (-0.5, 249.5)
    assert np.exp(image(axes)).sum() - 84**2 == 750  # no image is lost
