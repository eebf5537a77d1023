"""Everything without trainable weights: reservoir weights, states, diagnostics."""
