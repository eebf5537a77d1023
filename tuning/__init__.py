"""Model selection with KerasTuner: search spaces as data, one hypermodel a solver, one search."""
