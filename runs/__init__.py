"""The study of the documents: named runs as TOML, presets, results, report and errata."""
