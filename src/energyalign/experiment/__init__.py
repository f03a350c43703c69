"""What both applications share: evidence from training data, outputs of networks, result rows, table cells."""
