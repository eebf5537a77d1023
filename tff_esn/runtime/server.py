"""TFF's worker for other hosts, behind mutual TLS."""

from __future__ import annotations

import importlib.util
import logging
import signal
import socket
import sys
from pathlib import Path

from tff_esn.console import log
from tff_esn.errors import ConfigError, FleetError
from tff_esn.runtime import worker_supervisor
from tff_esn.runtime.certificates import Certificates


def serve(host: str, port: int, certificates: Path | None, data: Path | None) -> None:
    """Runs a worker until it is stopped.

    This process is the worker's supervisor, so it must have one thread: nothing here imports TensorFlow.

    Args:
        host: Address to listen on; "" for all.
        port: Port to listen on.
        certificates: Certificates of this host; None for no TLS, so that anyone can connect.
        data: Folder where the clients' files are.
    """
    if data is not None and not data.is_dir():
        raise ConfigError(f"--data {data}: no such folder; expected one with clients' files")
    context = None if certificates is None else Certificates(certificates).server_context()
    package = importlib.util.find_spec("tensorflow_federated")
    if package is None or package.origin is None:
        raise FleetError("tensorflow_federated is not installed; expected it beside this package")
    listener = _listener(host, port)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))

    def ready(how: str) -> None:
        where = f"{host or 'all addresses'}, port {listener.getsockname()[1]}"
        if how == worker_supervisor.EXPOSED:
            log.warning(
                "TFF's own port is open beside it, and whoever reaches this host can run code on it: this user may "
                "make no network namespace to hide it in (see docs/fleet.md)"
            )
        if context is None:
            log.warning("a worker on %s, without TLS: anyone who can connect can run code", where)
        else:
            log.warning("a worker on %s, for clients with a certificate", where)

    status = worker_supervisor.keep(
        listener,
        str(Path(package.origin).parent / "data" / "worker_binary"),
        ready,
        context,
        None if data is None else str(data),
        talkative=log.isEnabledFor(logging.DEBUG),
    )
    raise FleetError(f"TFF's worker ended with status {status}; expected it to run until it is stopped")


def _listener(host: str, port: int) -> socket.socket:
    try:
        dual = not host and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual or ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=128, dualstack_ipv6=dual)
    except OSError as error:
        raise FleetError(f"cannot listen on {host or 'all addresses'}, port {port}: {error.strerror}") from None
