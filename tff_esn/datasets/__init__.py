"""Data sets: studies on disk, generated subjects, splits."""
