"""Where data come from: studies on disk, generated subjects, splits."""
