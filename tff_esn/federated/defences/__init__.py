"""Defences of the server against bad clients: one file per defence."""
