"""Sweeps: plan many runs, distribute them to processes or a Ray cluster, and complete them despite failures."""
