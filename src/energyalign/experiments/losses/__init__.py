"""Losses, one a file: functions of logits and labels, and of the training counts where they need them."""
