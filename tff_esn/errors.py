"""Errors that a user can act on.

The command line prints each of them as one line and exits with status 2;
anything else that escapes is a bug and keeps its traceback.
"""

from __future__ import annotations

from os import PathLike


class TffEsnError(Exception):
    """Base of all errors that name what was found and what was expected."""


class ConfigError(TffEsnError):
    """A setting has a value that cannot be used."""


class DataError(TffEsnError):
    """A file of a study is missing, unreadable or not what it should be.

    Args:
        source: The file or folder in question.
        found: What was found there.
        expected: What should have been there.
    """

    def __init__(self, source: str | PathLike[str], found: str, expected: str) -> None:
        super().__init__(source, found, expected)
        self.source, self.found, self.expected = str(source), found, expected

    def __str__(self) -> str:
        return f"{self.source}: {self.found}; expected {self.expected}"


class FleetError(TffEsnError):
    """Workers on other hosts cannot do the work."""
