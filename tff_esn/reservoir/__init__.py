"""Everything that has no trainable weight: weights drawn once, states, diagnostics."""
