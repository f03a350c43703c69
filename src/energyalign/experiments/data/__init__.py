"""Labelled images: sources, long-tail cuts, and batches."""
