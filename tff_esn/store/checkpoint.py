"""The server's last state, to resume a run from.

It is read without running anything in it. TFF's own `FileProgramStateManager` keeps states as SavedModels, which are
programs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tff_esn.console import log
from tff_esn.errors import DataError
from tff_esn.store.files import read_arrays, write_arrays

_ROUND = "round"


class Checkpoint:
    """The last state that was saved, as the arrays of a file; the former one stays until the next is complete."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def save(self, state: Any, number: int) -> None:
        """Keeps the state after a round."""
        leaves = {str(i): np.asarray(leaf) for i, leaf in enumerate(tf.nest.flatten(state))}
        write_arrays(self.path, {_ROUND: np.array(number), **leaves})

    def load(self, like: Any) -> tuple[Any, int]:
        """The state that was saved and its round; `like` and 0 if there is none.

        A damaged file counts as none: its rounds are computed again, with the same numbers.

        Args:
            like: A state of the same structure.

        Raises:
            DataError: The file holds a state of something else.
        """
        try:
            arrays = read_arrays(self.path)
        except FileNotFoundError:
            return like, 0
        except DataError as error:
            log.warning("%s: damaged checkpoint (%s), the run starts over", error.source, error.found)
            return like, 0
        expected = [np.asarray(leaf) for leaf in tf.nest.flatten(like)]
        found = [arrays.get(str(i)) for i in range(len(expected))]
        if len(arrays) != len(expected) + 1 or any(
            own is None or (own.dtype, own.shape) != (other.dtype, other.shape) for own, other in zip(found, expected)
        ):
            raise DataError(self.path, "a state of something else", f"{len(expected)} arrays, as of this run")
        # Numbers as such, not as arrays without a dimension.
        return tf.nest.pack_sequence_as(like, [own[()] for own in found if own is not None]), int(arrays[_ROUND])
