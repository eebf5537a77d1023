"""The documents' tables and figures, made again: named runs, their results, and the report of them."""
