"""Figures, tables and pages from stored results; nothing is trained here."""
