"""Errata of the five documents: where, what is printed, evidence that is computed when asked for, the correction."""
