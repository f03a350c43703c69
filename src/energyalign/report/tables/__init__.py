"""The paper's tables with our numbers beside, and tables of any runs: rows in, text out."""

from energyalign.report.tables.model import Cell, Column, Line, PaperTable
from energyalign.report.tables.registry import TABLES, find_table

__all__ = ["TABLES", "Cell", "Column", "Line", "PaperTable", "find_table"]
