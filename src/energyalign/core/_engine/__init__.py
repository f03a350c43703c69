"""Performance: blocks, threads, sums, compiled loops."""
