"""How the method is fast: blocks, threads, sums, compiled loops."""
