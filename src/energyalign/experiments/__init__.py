"""Both applications of the paper as exact, resumable experiments.

From Python::

    import energyalign.experiments as ea

    results = ea.longtail("digits", methods=["ce", "crt"], correctors=["raw", "ea"], seeds=range(3))
    results.frame
    results.figure("groups")
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from energyalign.experiments.data.sources import Source
    from energyalign.experiments.data.sources.arrays import arrays
    from energyalign.experiments.face import Results
    from energyalign.experiments.nets.registry import register_backbone

__all__ = ["Results", "arrays", "incremental", "longtail", "register_backbone"]
_WHERE = {"Results": "face", "arrays": "data.sources.arrays", "register_backbone": "nets.registry"}

# Import these subpackages first: importing one sets an attribute of its name, which the functions below replace.
for _room in ("longtail", "incremental"):
    importlib.import_module(f"{__name__}.{_room}")


def __getattr__(name: str) -> Any:
    """Import a public name on first use: tables and figures need no torch."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)


def longtail(
    dataset: str | Source, *, methods: Iterable[str] = (), correctors: Iterable[str] = (), seeds: Iterable[int] = (0,),
    out: str | Path | None = None, progress: bool = True, **options: Any,
) -> Results:  # fmt: skip
    """Train on a long-tailed set and measure correctors behind it, like ``energyalign longtail``.

    Runs and rows that are stored in the run directories already are not computed again.

    Parameters
    ----------
    dataset : str or Source
        A name of ``energyalign list datasets``, a preset, ``folder:PATH``, ``features:PATH``, ...; or `arrays`.
    methods : iterable of str, default ()
        Names of ``energyalign list methods``; plain cross-entropy if empty.
    correctors : iterable of str, default ()
        Correctors behind every training; if empty, the correctors of the methods, or the standard ones.
    seeds : iterable of int, default (0,)
        One run for each seed.
    out : path, default None
        Folder of the runs; None for one in ``runs`` that is named after the settings.
    progress : bool, default True
        Report progress on stderr.
    **options
        Further options of the command, such as ``imbalance=100``, ``epochs=20``, ``head="linear"`` or
        ``data_root="data"``; see `energyalign.experiments.longtail.config.LongTailRequest`.

    Returns
    -------
    Results

    Examples
    --------
    >>> import energyalign.experiments as ea
    >>> results = ea.longtail("digits", correctors=["raw", "ea"], seeds=range(3))  # doctest: +SKIP
    >>> results.frame  # doctest: +SKIP
    """
    from energyalign.experiments.face import run
    from energyalign.experiments.longtail.config import LongTailRequest

    return run(
        LongTailRequest, dataset, methods=methods, correctors=correctors, seeds=seeds, out=out, progress=progress,
        options=options,
    )  # fmt: skip


def incremental(
    dataset: str | Source, *, methods: Iterable[str] = (), correctors: Iterable[str] = (), seeds: Iterable[int] = (0,),
    out: str | Path | None = None, progress: bool = True, **options: Any,
) -> Results:  # fmt: skip
    """Train on classes that come in steps and measure correctors after each step, like ``energyalign incremental``.

    The parameters are the same as for `longtail`. Further `options`, such as ``steps=5`` or ``memory="herding:200"``,
    are fields of `energyalign.experiments.incremental.config.IncrementalRequest`.

    Returns
    -------
    Results
    """
    from energyalign.experiments.face import run
    from energyalign.experiments.incremental.config import IncrementalRequest

    return run(
        IncrementalRequest, dataset, methods=methods, correctors=correctors, seeds=seeds, out=out, progress=progress,
        options=options,
    )  # fmt: skip
