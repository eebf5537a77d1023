"""The trainable part of an Echo State Network."""
