"""Clients' work on other hosts.

A computation is split where its messages are aggregated, as in TFF's mergeable form. The part before that runs for
each client on one of the workers; then this process's own worker, the server, merges the messages in the order of the
clients. A single worker accumulates them in the same order, so a round ends with the same numbers whatever the number
of workers, and whichever of them fail.

Rounds are functions of their arguments: work that was lost with a worker is computed again by another. A worker that
does not respond is contacted again every few seconds and used again when it responds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass as plain_dataclass
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from threading import Condition, Event, Lock, Thread
from types import SimpleNamespace
from typing import Annotated, Any, Optional

import grpc  # type: ignore[import-untyped]
from pydantic import Field
from pydantic.dataclasses import dataclass

from tff_esn.console import log
from tff_esn.errors import ConfigError, DataError, FleetError
from tff_esn.parameters import STRICT, Parameters, PositiveFloat, PositiveInt
from tff_esn.runtime.certificates import Certificates
from tff_esn.runtime.context import CHANNEL, load_tff
from tff_esn.runtime.remote_executor import remote_executor

#: Seconds of one wait for results, and of joining a thread at the end.
_WAIT, _JOIN = 0.2, 5.0
#: A connection of its own, tried at once, not when gRPC has waited for twice as long as the time before.
_FRESH = (("grpc.use_local_subchannel_pool", 1),)
_NO_CALL = "/tff-esn/alive"
_LOST = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,  # by us, when a worker no longer answers
    grpc.StatusCode.FAILED_PRECONDITION,  # another process than before
)
_CALLS = {
    "get_executor": "GetExecutor",
    "create_value": "CreateValue",
    "create_struct": "CreateStruct",
    "create_call": "CreateCall",
    "create_selection": "CreateSelection",
    "compute": "Compute",
    "dispose": "Dispose",
    "dispose_executor": "DisposeExecutor",
}
_NO_FILE = "No such file or directory"


@dataclass(frozen=True, repr=False, config=STRICT)
class FleetConfig(Parameters):
    """Workers on other hosts, for the clients' work.

    Nothing here changes a result, so a run may be resumed with other workers.

    Attributes:
        workers: Where they listen, each `host:port`.
        certificates: Folder of this host's certificates; None for connections in the clear.
        insecure: Whether connections are in the clear, without TLS.
        data: Folder in which the workers find the clients' files, each on its own disk; below a worker's `--data`
            if it is not absolute. None for the folder in which this process writes them, which all must share.
        timeout: Longest time in seconds for one client's work.
        heartbeat: Seconds between two health checks of a worker.
        answer: Seconds within which it must respond to one.
        retries: Number of times that one client's work may be lost with a worker before the run stops.
        patience: Seconds to wait for a worker when there is none.
        slots: Number of clients whose work a worker does at the same time.
    """

    workers: Annotated[tuple[Annotated[str, Field(pattern=r"^.+:[0-9]+$")], ...], Field(min_length=1)]
    certificates: Optional[Path] = None
    insecure: bool = False
    data: Optional[Path] = None
    timeout: PositiveFloat = 600.0
    heartbeat: PositiveFloat = 2.0
    answer: PositiveFloat = 5.0
    retries: Annotated[int, Field(ge=0)] = 3
    patience: PositiveFloat = 30.0
    slots: PositiveInt = 2

    def __post_init__(self) -> None:
        if (self.certificates is None) != self.insecure:
            raise ConfigError("workers need either certificates or insecure = true")


class WorkerLost(grpc.RpcError):
    """A worker did not respond. Not one of TFF's errors, after which TFF would retry the same worker for ever."""


@plain_dataclass(eq=False)
class _Unit:
    """One client's part of a computation."""

    computation: Any
    argument: Any
    label: str
    result: Any = None
    error: BaseException | None = None
    done: bool = False
    losses: int = 0
    lacking: set[str] = field(default_factory=set)


class _Worker:
    """The coordinator's view of a worker."""

    def __init__(self, address: str, config: FleetConfig, credentials: Any) -> None:
        self.address = address
        self._config, self._credentials = config, credentials
        self.connection: _Connection | None = None
        self.trouble = "not reached yet"
        self.known = False
        self.lacks: set[str] = set()
        self.alarm = Event()
        self._lock = Lock()

    def watch(self, changed: Callable[[], None], ended: Event) -> None:
        """Connects, checks every few seconds whether the worker responds, and reconnects when it is back."""
        while not ended.is_set():
            connection = self.connection
            if connection is None:
                connection = _Connection(self.address, self._config, self._credentials)
                trouble = connection.trouble()
                if trouble is None:
                    if self.known:
                        log.warning("worker %s is back", self.address)
                    self.known = True
                    self.lacks = set()
                    self.connection = connection
                    changed()
                else:
                    self.trouble = trouble
                    connection.close()
            else:
                trouble = connection.trouble()
                if trouble is not None:
                    self.lose(connection, trouble)
                    changed()
            self.alarm.wait(self._config.heartbeat)
            self.alarm.clear()
        if self.connection is not None:
            self.connection.close()

    def lose(self, connection: _Connection, trouble: str) -> None:
        """Gives up a connection, once."""
        with self._lock:
            if self.connection is connection:
                self.connection, self.trouble = None, trouble
                log.warning("worker %s is lost: %s", self.address, trouble)
        connection.close()


class _Connection:
    """A channel to a worker."""

    def __init__(self, address: str, config: FleetConfig, credentials: Any) -> None:
        options = (*CHANNEL, *_FRESH)
        if credentials is None:
            self._channel = grpc.insecure_channel(address, options)
        else:
            self._channel = grpc.secure_channel(address, credentials, options)
        self._config = config
        self._ask = self._channel.unary_unary(_NO_CALL)

    def trouble(self) -> str | None:
        """Why the worker does not respond; None if it does."""
        try:
            self._ask(b"", timeout=self._config.answer)
        except (grpc.RpcError, ValueError) as error:  # ValueError: closed meanwhile
            code = error.code() if isinstance(error, grpc.Call) else None
            # It has no such method, but it has answered.
            return None if code == grpc.StatusCode.UNIMPLEMENTED else _error_text(error)
        return None

    def stub(self) -> SimpleNamespace:
        """Connection of TFF's remote executor; each call has a deadline, and a lost worker is a distinct error."""
        from tensorflow_federated.proto.v0 import executor_pb2_grpc

        calls = executor_pb2_grpc.ExecutorGroupStub(self._channel)

        def bounded(call: Callable[..., Any]) -> Callable[[Any], Any]:
            def ask(request: Any) -> Any:
                try:
                    return call(request, timeout=self._config.timeout)
                except ValueError as error:  # The channel was closed.
                    raise WorkerLost(str(error)) from None
                except grpc.RpcError as error:
                    if error.code() in _LOST:
                        raise WorkerLost(_error_text(error)) from None
                    raise

            return ask

        return SimpleNamespace(**{name: bounded(getattr(calls, method)) for name, method in _CALLS.items()})

    def close(self) -> None:
        """Ends the calls that are under way."""
        self._channel.close()


class Fleet:
    """Workers on other hosts, for as long as the `with` block lasts.

    Args:
        config: Their addresses and time limits.
    """

    def __init__(self, config: FleetConfig) -> None:
        self.config = config
        credentials = None
        if config.certificates is not None:
            credentials = Certificates(config.certificates).channel_credentials()
        self._workers = [_Worker(address, config, credentials) for address in config.workers]
        self._pending: list[_Unit] = []
        self._changed = Condition()
        self._ended = Event()
        self._threads: list[Thread] = []

    def __enter__(self) -> Fleet:
        for worker in self._workers:
            self._start(worker.watch, self._notify, self._ended)
            for _ in range(self.config.slots):
                self._start(self._serve, worker)
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        for worker in self._workers:
            worker.alarm.set()
        self._notify()
        for thread in self._threads:
            thread.join(_JOIN)

    def _start(self, target: Callable[..., None], *arguments: Any) -> None:
        thread = Thread(target=target, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def compute(self, computation: Any, arguments: Sequence[Any]) -> list[Any]:
        """The results of a computation for each of the arguments, one client each, in their order."""
        units = [_Unit(computation, argument, _label(argument)) for argument in arguments]
        with self._changed:
            self._pending += units
            self._changed.notify_all()
            stuck_since: float | None = None
            try:
                while not all(unit.done for unit in units):
                    self._changed.wait(_WAIT)
                    for unit in units:
                        if unit.error is not None:
                            raise unit.error
                    stuck = next((unit for unit in self._pending if not self._takers(unit)), None)
                    stuck_since = None if stuck is None else stuck_since or time.monotonic()
                    if stuck is not None and stuck_since is not None:
                        self._judge(stuck, time.monotonic() - stuck_since)
            finally:
                self._pending = [unit for unit in self._pending if unit not in units]
        return [unit.result for unit in units]

    def _takers(self, unit: _Unit) -> list[_Worker]:
        return [one for one in self._workers if one.connection is not None and one.address not in unit.lacking]

    def _judge(self, unit: _Unit, seconds: float) -> None:
        """Gives up work that no worker can do."""
        unreachable = [f"{one.address} ({one.trouble})" for one in self._workers if one.connection is None]
        if unreachable and seconds < self.config.patience:
            return
        if unit.lacking:
            absent = f"; no answer from {', '.join(unreachable)}" if unreachable else ""
            raise DataError(
                unit.label,
                f"not on {', '.join(sorted(unit.lacking))}{absent}",
                "a client's file on the disk of one of the workers, or on one that they share",
            )
        raise FleetError(f"no worker answers: {', '.join(unreachable)}; expected one within {self.config.patience:g} s")

    def _serve(self, worker: _Worker) -> None:
        """One of a worker's slots."""
        loop = asyncio.new_event_loop()
        speaker: _Speaker | None = None
        served: _Connection | None = None
        while True:
            with self._changed:
                unit = None
                while unit is None:
                    if self._ended.is_set():
                        return
                    connection = worker.connection
                    if connection is not None:
                        unit = next((one for one in self._pending if self._suits(worker, one)), None)
                    if unit is None:
                        self._changed.wait()
                assert connection is not None
                self._pending.remove(unit)
            try:
                if speaker is None or served is not connection:
                    speaker, served = _Speaker(connection), connection
                unit.result = loop.run_until_complete(speaker.invoke(unit.computation, unit.argument))
                unit.done = True
            except WorkerLost as error:
                if self._ended.is_set():
                    return
                worker.lose(connection, str(error))
                worker.alarm.set()
                self._lost(unit, worker)
            except grpc.RpcError as error:
                details = error.details() or ""
                if _NO_FILE in details and unit.label in details:
                    worker.lacks.add(unit.label)
                    self._give_back(unit)
                else:
                    unit.error = FleetError(f"{unit.label} on worker {worker.address}: {_error_text(error)}")
            except BaseException as error:
                unit.error = error
            self._notify()

    def _suits(self, worker: _Worker, unit: _Unit) -> bool:
        if unit.label in worker.lacks:
            unit.lacking.add(worker.address)
        return worker.address not in unit.lacking

    def _lost(self, unit: _Unit, worker: _Worker) -> None:
        unit.losses += 1
        if unit.losses > self.config.retries:
            unit.error = FleetError(
                f"{unit.label}: its work was lost {unit.losses} times, last with worker {worker.address} "
                f"({worker.trouble}); expected at most {self.config.retries} losses"
            )
        else:
            log.warning("the work on %s goes to another worker", unit.label)
            self._give_back(unit)

    def _give_back(self, unit: _Unit) -> None:
        with self._changed:
            self._pending.insert(0, unit)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Within the block, TFF's computations run on the fleet."""
        tff = load_tff()
        with self, tff.framework.get_context_stack().install(_fleet_context(self)):
            yield


def _fleet_context(fleet: Fleet) -> Any:
    tff = load_tff()
    server = tff.framework.get_context_stack().current

    @lru_cache(maxsize=64)
    def split(computation: Any) -> _Split:
        return _Split.of(computation)

    class FleetContext(tff.framework.SyncContext):  # type: ignore[name-defined]
        def invoke(self, computation: Any, argument: Any) -> Any:
            if not _at_clients(computation.type_signature.parameter):
                return server.invoke(computation, argument)
            parts = split(computation)
            kind = computation.type_signature.parameter
            count = _count(argument, kind)
            if not count:
                return server.invoke(computation, argument)
            argument = _numbers(argument)
            ones = [_share(argument, kind, slice(i, i + 1)) for i in range(count)]
            messages = fleet.compute(parts.of_client, ones)
            total = messages[0]
            if len(messages) > 1:
                total = server.invoke(parts.merged, tff.structure.Struct.unnamed(total, messages[1:]))
            no_clients = _share(argument, kind, slice(0, 0))
            return server.invoke(parts.of_server, tff.structure.Struct.unnamed(no_clients, total))

    return FleetContext()


@plain_dataclass(frozen=True)
class _Split:
    """The three parts of a computation.

    Attributes:
        of_client: From the argument, with one client, to what is aggregated, compiled.
        merged: From the first client's and a list of the others' to that of all.
        of_server: From the argument, with no client, and that of all to the result.
    """

    of_client: Any
    merged: Any
    of_server: Any

    @classmethod
    def of(cls, computation: Any) -> _Split:
        """Splits one whose result is at the server."""
        from tensorflow_federated.python.core.backends.native import mergeable_comp_compiler

        tff = load_tff()
        if _at_clients(computation.type_signature.result):
            raise TypeError(f"results at clients, {computation.type_signature.result}; expected results at the server")
        form = mergeable_comp_compiler.compile_to_mergeable_comp_form(computation)
        message = form.merge.type_signature.result

        @tff.tensorflow.computation(message)
        def same(total: Any) -> Any:
            return total

        @tff.federated_computation(message, tff.FederatedType(message, tff.CLIENTS))
        def merged(first: Any, others: Any) -> Any:
            return tff.federated_aggregate(others, first, form.merge, form.merge, same)

        return cls(tff.backends.native.desugar_and_transform_to_native(form.up_to_merge), merged, form.after_merge)


class _Speaker:
    """Runs compiled computations for one client through a connection.

    Uses TFF's executor directly: its execution context would send each part of an argument alone, and retry for ever.
    """

    def __init__(self, connection: _Connection) -> None:
        tff = load_tff()
        self._executor = remote_executor()(connection.stub())
        self._executor.set_cardinalities({tff.CLIENTS: 1})

    async def invoke(self, computation: Any, argument: Any) -> Any:
        """The result for an argument with one client."""
        kind = computation.type_signature
        function = await self._executor.create_value(computation, kind)
        value = await self._executor.create_value(argument, kind.parameter)
        result = await self._executor.create_call(function, value)
        return await result.compute()


def _at_clients(kind: Any) -> bool:
    """Whether something of a type is at clients, each with its own."""
    tff = load_tff()
    if isinstance(kind, tff.FederatedType):
        return kind.placement is tff.CLIENTS and not kind.all_equal
    return isinstance(kind, tff.StructType) and any(_at_clients(own) for own in kind)


def _parts(value: Any, kind: Any) -> list[tuple[str | None, Any, Any]]:
    tff = load_tff()
    named = tff.structure.from_container(value)
    return [(name, one, own) for one, (name, own) in zip(named, tff.structure.iter_elements(kind))]


def _count(value: Any, kind: Any) -> int:
    """How many clients there are."""
    tff = load_tff()
    if isinstance(kind, tff.StructType):
        return max(_count(one, own) for _, one, own in _parts(value, kind) if _at_clients(own))
    return len(value)


def _share(value: Any, kind: Any, clients: slice) -> Any:
    """The part of a value that belongs to some of the clients."""
    tff = load_tff()
    if not _at_clients(kind):
        return value
    if isinstance(kind, tff.StructType):
        return tff.structure.Struct([(name, _share(one, own, clients)) for name, one, own in _parts(value, kind)])
    return list(value)[clients]


def _numbers(value: Any) -> Any:
    """A copy of a value without tensors, which TFF's executor does not accept."""
    tff = load_tff()
    if isinstance(value, tff.structure.Struct):
        return tff.structure.Struct([(name, _numbers(one)) for name, one in tff.structure.iter_elements(value)])
    return tff.tensorflow.transform_args(value)


def _label(argument: Any) -> str:
    """Label of a client's work: the path of its file, if it has one."""
    structure = load_tff().structure
    return next(
        (
            str(one)
            for one in structure.flatten(structure.from_container(argument, recursive=True))
            if isinstance(one, str)
        ),
        "a client",
    )


def _error_text(error: Any) -> str:
    """A gRPC error in one line."""
    if not isinstance(error, grpc.Call):
        return str(error)
    details = (error.details() or "").strip().splitlines()
    return f"{error.code().name.lower().replace('_', ' ')}: {details[0] if details else 'no details'}"
