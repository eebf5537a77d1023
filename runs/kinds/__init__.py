"""Kinds of named runs."""
