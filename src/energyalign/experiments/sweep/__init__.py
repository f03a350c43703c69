"""Many runs as one: planned, shared out to processes or to a Ray cluster, and completed whatever fails."""
