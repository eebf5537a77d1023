"""Model selection with KerasTuner: search spaces as TOML, hypermodels, and the search."""
