"""Attacks of malicious or faulty clients: one file per attack."""
