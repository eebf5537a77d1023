"""Readouts learned by gradients in federated rounds: one file per algorithm, and one driver for all of them."""
