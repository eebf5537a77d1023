"""Everything that is written to disk: the cache, run folders, metrics, checkpoints."""
