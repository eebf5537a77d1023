"""Evaluation of models: scores over seeds, and privacy attacks."""
