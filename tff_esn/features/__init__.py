"""From recordings to the values that a reservoir sees."""
