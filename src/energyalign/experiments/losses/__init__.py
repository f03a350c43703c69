"""Losses that several methods share. A loss of one method is in the file of that method."""
