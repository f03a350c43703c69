"""Benchmarks of energyalign against alternatives and against the limits of the machine. Run them with `make bench`."""
