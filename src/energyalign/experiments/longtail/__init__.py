"""Long-tailed recognition, the paper's second application: protocol, presets and one file per method."""
