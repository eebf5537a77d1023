"""Numbers for TensorBoard, written without TensorFlow, whose own writer keeps some memory for every number."""

from __future__ import annotations

import io
import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path

from tff_esn.store.files import append_bytes


class EventsFile:
    """A file of events below a folder; each process that resumes a run has its own."""

    def __init__(self, folder: Path) -> None:
        name = f"events.out.tfevents.{int(time.time()):010d}.{platform.node()}.{os.getpid()}"
        self._path = folder / name

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        """Adds the numbers of a step, on disk before this returns."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.plugins.scalar.summary_v2 import scalar_pb

        values = [value for name, number in scalars.items() for value in scalar_pb(name, number).value]
        events = [Event(wall_time=time.time(), step=step, summary=Summary(value=values))]
        if not self._path.exists():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            events.insert(0, Event(wall_time=time.time(), file_version="brain.Event:2"))
        append_bytes(self._path, b"".join(_record(event.SerializeToString()) for event in events))


def _record(data: bytes) -> bytes:
    """TensorFlow's framing: length and data, each followed by its checksum."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    framed = io.BytesIO()
    RecordWriter(framed).write(data)
    return framed.getvalue()
