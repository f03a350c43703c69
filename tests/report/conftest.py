"""Figures as they are when they are saved."""

import pytest
from matplotlib.figure import Figure

from energyalign.report import drawing


@pytest.fixture
def saved(monkeypatch):
    """All figure objects that were saved."""
    figures = []

    class Kept(Figure):
        def savefig(self, *args, **kwargs):
            figures.append(self)
            super().savefig(*args, **kwargs)

    monkeypatch.setattr(drawing, "Figure", Kept)
    return figures
