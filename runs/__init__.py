"""Run definitions: what to run, as TOML, named after the table or figure it makes."""
