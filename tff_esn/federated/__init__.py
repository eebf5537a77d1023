"""Readouts learned by gradients, round after round: one file an algorithm, and one driver for all of them."""
