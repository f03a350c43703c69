"""Application II of the paper: long-tailed recognition."""
