"""Hosts with workers, for tests: network namespaces with a wire to this one, or loopback addresses."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psutil

from tff_esn.runtime.certificates import create_certificates

PORT = 8443
_NUMBERS = count(1)
IP = shutil.which("ip") or "/usr/sbin/ip"


@dataclass
class Host:
    """A host with a worker on it.

    Attributes:
        address: Under which it is reached.
        before: What a command starts with to run there.
        command: What starts the worker.
    """

    address: str
    before: tuple[str, ...]
    command: list[str] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts its worker, and waits until that listens."""
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE)
        assert self.process.stderr is not None
        said = self.process.stderr.readline()
        assert b"a worker on" in said, said

    def worker(self) -> psutil.Process:
        """TFF's own process."""
        assert self.process is not None
        (worker,) = psutil.Process(self.process.pid).children()
        return worker

    def stop(self) -> None:
        """Kills the worker."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


@contextmanager
def hosts(folder: Path, wanted: int, options: Sequence[str] = ()) -> Iterator[list[Host]]:
    """Hosts with running workers; `folder` gets the certificates."""
    numbers = [next(_NUMBERS) for _ in range(wanted)]
    found = [_namespace(number) or Host(f"127.0.{os.getpid() % 250}.{number + 1}", ()) for number in numbers]
    create_certificates(folder, [[host.address] for host in found])
    try:
        for host in found:
            command = [sys.executable, "-m", "tff_esn", "worker", "--host", host.address, "--port", str(PORT)]
            certificates = ["--certificates", str(folder / host.address)]
            host.command = [*host.before, *command, *certificates, *options]
        for host in found:
            host.start()
        yield found
    finally:
        for host in found:
            host.stop()
        for number in numbers:
            # The wire first: a namespace takes its time to go, and this host would keep addresses of it meanwhile.
            subprocess.run([IP, "link", "delete", _wire(number)], capture_output=True)
            subprocess.run([IP, "netns", "delete", _name(number)], capture_output=True)


def _name(number: int) -> str:
    return f"tff-esn-{os.getpid()}-{number}"


def _wire(number: int, end: str = "h") -> str:
    return f"esn{os.getpid() % 100000}{end}{number}"


def _namespace(number: int) -> Host | None:
    """A network namespace with a wire to this one, or None if that cannot be made."""
    name, here, there = _name(number), _wire(number), _wire(number, "t")
    subnet = f"10.{200 + number}.{os.getpid() % 250}"
    enter = (IP, "netns", "exec", name)
    for command in (
        (IP, "netns", "add", name),
        (IP, "link", "add", here, "type", "veth", "peer", "name", there, "netns", name),
        (IP, "address", "add", f"{subnet}.1/24", "dev", here),
        (IP, "link", "set", here, "up"),
        (*enter, IP, "address", "add", f"{subnet}.2/24", "dev", there),
        (*enter, IP, "link", "set", there, "up"),
        (*enter, IP, "link", "set", "lo", "up"),
    ):
        if os.getuid() != 0 or not Path(IP).exists() or subprocess.run(command, capture_output=True).returncode != 0:
            return None
    return Host(f"{subnet}.2", enter)
