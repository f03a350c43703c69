"""The one training loop, with its recipes, checkpoints and run directories."""
