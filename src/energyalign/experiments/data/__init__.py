"""Labelled images: sources, long-tailed subsets, and batches."""
