"""What bad clients do: one file per attack."""
