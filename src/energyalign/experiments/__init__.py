"""The laboratory: both applications of the paper as exact, resumable experiments."""
