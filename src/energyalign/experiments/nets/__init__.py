"""Backbones, heads, and the networks made of one of each."""
