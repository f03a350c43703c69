"""Images with labels: where they come from, how a long tail is cut out of them, and how they become batches."""
