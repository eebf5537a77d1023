"""Trained models as files, and their predictions."""
