"""The class-incremental tables of the paper, as printed.

The paper quotes most rows from other papers, each with its own class order, subset and network; it ran only EA.
"""

from __future__ import annotations

from typing import NamedTuple


class PaperCurve(NamedTuple):
    """Accuracy in percent after each step, over all classes seen; None where the paper has a dash.

    Fields are empty where the table has no numbers for them. Averages are as printed, without the first step. The paper
    prints standard deviations only for EA on ImageNet, and does not say over how many runs.
    """

    top1: tuple[float | None, ...] = ()
    top5: tuple[float | None, ...] = ()
    average1: float | None = None
    average5: float | None = None
    deviations1: tuple[float, ...] = ()
    deviations5: tuple[float, ...] = ()
    average_deviation1: float | None = None
    average_deviation5: float | None = None


def _top1(average: float, *steps: float) -> PaperCurve:
    return PaperCurve(top1=steps, average1=average)


def _top5(average: float, *steps: float) -> PaperCurve:
    return PaperCurve(top5=steps, average5=average)


# fmt: off
PAPER: dict[str, dict[str, PaperCurve]] = {
    "cifar100-il-20": {
        "lwf": _top1(29.7,
                     89.4, 69.1, 59.7, 50.9, 44.6, 38.9, 34.9, 30.6, 27.7, 25.7,
                     24.0, 22.0, 20.0, 19.1, 18.3, 17.1, 16.3, 15.7, 14.9, 14.3),
        "icarl": _top1(59.7,
                       89.7, 82.6, 77.7, 74.6, 70.9, 68.6, 66.0, 63.4, 61.1, 59.4,
                       58.0, 56.3, 54.9, 52.9, 51.1, 50.0, 48.0, 47.1, 46.0, 44.9),
        "eeil": _top1(63.4,
                      82.5, 86.8, 84.8, 81.0, 77.7, 74.4, 70.6, 67.9, 65.3, 63.0,
                      61.3, 59.2, 57.7, 55.2, 53.7, 51.9, 50.6, 49.4, 47.9, 46.8),
        "bic": _top1(62.1,
                     95.8, 90.3, 80.8, 75.8, 73.6, 71.6, 67.9, 65.5, 62.9, 61.9,
                     59.3, 57.3, 56.2, 55.9, 54.0, 52.6, 49.8, 49.6, 48.2, 47.0),
        "wa": _top1(62.6,
                    97.6, 91.6, 82.3, 76.5, 73.9, 71.6, 69.6, 66.3, 65.2, 62.4,
                    61.1, 58.9, 56.9, 55.3, 54.5, 52.0, 50.1, 48.0, 46.8, 46.0),
        "ea": _top1(63.2,
                    97.6, 92.0, 84.5, 78.2, 76.7, 71.8, 70.4, 67.9, 66.3, 64.5,
                    62.7, 58.4, 56.4, 55.4, 53.6, 51.6, 50.5, 47.9, 46.5, 45.1),
    },
    "cifar100-il-10": {
        "lwf": _top1(39.7, 85.4, 68.9, 54.9, 46.3, 40.6, 36.6, 31.4, 28.6, 26.0, 24.6),
        "icarl": _top1(61.6, 86.0, 78.6, 72.6, 67.4, 63.7, 60.6, 56.9, 54.3, 51.4, 49.1),
        "eeil": _top1(63.6, 80.2, 80.9, 76.1, 71.3, 66.2, 62.5, 58.9, 54.8, 52.2, 49.5),
        "bic": _top1(63.5, 90.3, 82.2, 75.2, 70.2, 65.5, 61.3, 57.7, 55.2, 53.7, 50.2),
        "wa": _top1(64.5, 92.1, 79.7, 75.6, 70.3, 66.4, 63.3, 61.0, 57.0, 54.7, 52.4),
        "ea": _top1(65.2, 92.5, 81.7, 77.0, 71.6, 68.3, 63.0, 61.1, 56.6, 54.9, 52.4),
    },
    "cifar100-il-5": {
        "lwf": _top1(47.1, 82.3, 62.6, 50.3, 41.1, 34.6),
        "icarl": _top1(63.3, 82.9, 73.1, 66.0, 59.7, 54.3),
        "eeil": _top1(63.7, 80.7, 74.6, 66.7, 59.9, 53.6),
        "bic": _top1(65.1, 84.0, 74.7, 67.9, 61.3, 56.7),
        "wa": _top1(66.6, 83.5, 75.5, 68.7, 63.1, 59.2),
        "ea": _top1(66.6, 82.3, 75.6, 69.1, 62.6, 59.2),
    },
    "cifar100-il-2": {
        "lwf": _top1(52.6, 75.7, 52.6),
        "icarl": _top1(62.0, 74.9, 62.0),
        "eeil": _top1(60.8, 74.1, 60.8),
        "bic": _top1(64.9, 76.4, 64.9),
        "wa": _top1(65.1, 78.0, 65.1),
        "ea": _top1(65.2, 76.9, 65.2),
    },
    "imagenet100-il-10": {
        "lwf": _top5(60.7, 99.2, 95.4, 86.2, 74.1, 63.9, 55.1, 50.3, 44.5, 40.4, 36.6),
        "icarl": _top5(81.8, 99.5, 97.8, 94.1, 91.8, 88.0, 82.7, 77.3, 73.2, 67.3, 63.8),
        "eeil": _top5(89.2, 99.4, 99.0, 96.4, 93.8, 90.4, 88.8, 86.6, 84.9, 82.2, 80.2),
        "bic": _top5(89.8, 98.4, 96.2, 94.0, 92.9, 91.1, 89.4, 88.1, 86.5, 85.4, 84.4),
        "rps": _top5(86.6, 99.4, 97.4, 94.2, 92.6, 89.4, 86.2, 83.7, 82.1, 79.5, 74.0),
        "wa": PaperCurve(
            top1=(88.4, 84.1, 79.5, 75.6, 69.3, 66.8, 64.8, 62.7, 59.5, 57.3), average1=68.8,
            top5=(98.8, 96.8, 94.5, 93.1, 90.5, 89.9, 88.8, 88.0, 86.2, 84.1), average5=90.2,
        ),
        "ea": PaperCurve(
            top1=(88.6, 85.0, 80.8, 76.5, 71.6, 69.8, 67.4, 65.5, 62.7, 60.3), average1=71.1,
            top5=(99.1, 97.5, 95.5, 94.0, 91.3, 90.7, 89.7, 88.7, 87.5, 86.3), average5=91.2,
            deviations1=(1.0, 0.6, 0.4, 0.3, 0.4, 0.5, 0.3, 0.7, 0.3, 0.5), average_deviation1=0.2,
            deviations5=(0.3, 0.5, 0.4, 0.4, 0.2, 0.3, 0.0, 0.3, 0.3, 0.1), average_deviation5=0.2,
        ),
    },
    "imagenet-il-10": {
        "lwf": _top5(42.5, 90.1, 77.7, 63.9, 51.8, 43.0, 35.5, 31.6, 28.4, 26.4, 24.3),
        "icarl": PaperCurve(
            top1=(None, 57.9, 48.8, 40.9, 35.5, 31.8, 28.8, 25.5, 24.2, 22.7), average1=35.1,
            top5=(90.0, 83.0, 77.5, 70.5, 63.0, 57.5, 53.5, 50.0, 48.0, 44.0), average5=60.8,
        ),
        "eeil": _top5(69.4, 94.9, 94.9, 84.7, 77.8, 71.7, 66.8, 62.5, 59.0, 55.2, 52.3),
        "bic": _top5(82.9, 94.1, 92.5, 89.6, 89.1, 85.7, 83.2, 80.2, 77.5, 75.0, 73.2),
        "il2m": PaperCurve(
            top1=(None, 74.2, 68.8, 62.4, 56.4, 53.3, 52.1, 48.8, 47.6, 43.6), average1=56.4,
            top5=(None,) * 10, average5=78.3,
        ),
        "wa": PaperCurve(
            top1=(79.8, 75.3, 70.9, 68.1, 65.6, 63.6, 61.2, 59.2, 57.4, 55.6), average1=64.1,
            top5=(93.9, 91.5, 89.4, 87.7, 86.5, 85.6, 84.5, 83.2, 82.1, 81.1), average5=85.7,
        ),
        "ea": PaperCurve(
            top1=(81.7, 76.6, 72.3, 69.7, 67.0, 65.0, 62.8, 61.0, 59.3, 57.8), average1=65.7,
            top5=(94.4, 92.5, 90.4, 89.0, 87.7, 86.8, 85.7, 84.5, 83.4, 82.6), average5=87.0,
            deviations1=(0.3, 0.5, 0.3, 0.2, 0.0, 0.1, 0.1, 0.1, 0.1, 0.1), average_deviation1=0.1,
            deviations5=(0.3, 0.1, 0.1, 0.1, 0.0, 0.1, 0.0, 0.0, 0.0, 0.1), average_deviation5=0.0,
        ),
    },
}
# fmt: on
