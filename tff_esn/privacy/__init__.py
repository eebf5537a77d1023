"""Secure aggregation, differential privacy, and the attacks that they are for."""
