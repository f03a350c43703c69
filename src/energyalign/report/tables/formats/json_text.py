"""Tables as JSON, with numbers that are not rounded."""

from __future__ import annotations

import json

from energyalign.report.tables.model import PaperTable


def to_json(table: PaperTable) -> str:
    """Return the table as a JSON object; missing numbers are null."""
    lines = [
        {
            "method": line.method,
            "source": line.source,
            "cells": [
                {"mean": cell.mean, "deviation": cell.deviation, "seeds": cell.n, "off_paper": cell.off_paper}
                for cell in line.cells
            ],
        }
        for line in table.lines
    ]
    columns = [{"group": column.group, "title": column.title} for column in table.columns]
    whole = {"name": table.name, "title": table.title, "columns": columns, "lines": lines, "notes": table.notes}
    return json.dumps(whole, indent=1, allow_nan=False) + "\n"
