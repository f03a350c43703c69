"""How fast energyalign is, beside what a user would pick instead and what the machine can do. Run with `make bench`."""
