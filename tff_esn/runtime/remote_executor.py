"""TFF's remote executor, which speaks to a worker."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any

#: Computations that a worker keeps for each executor.
KEPT = 16


@cache
def remote_executor() -> type:
    """`tff.framework.RemoteExecutor`, but a computation is sent once: it is much larger than its arguments.

    TFF's executor sends it with every call, and the worker parses it again.
    """
    import grpc  # type: ignore[import-untyped]
    import tensorflow_federated as tff

    class RemoteExecutor(tff.framework.RemoteExecutor):
        def set_cardinalities(self, cardinalities: Any) -> None:
            # By identity: to compare computations is to serialise them.
            self._sent: dict[int, tuple[Any, Any]] = {}
            super().set_cardinalities(cardinalities)

        async def create_value(self, value: Any, type_spec: Any = None) -> Any:
            if not isinstance(type_spec, tff.FunctionType):
                return await super().create_value(value, type_spec)
            if id(value) not in self._sent:
                if len(self._sent) == KEPT:
                    del self._sent[next(iter(self._sent))]
                self._sent[id(value)] = value, await super().create_value(value, type_spec)
            return self._sent[id(value)][1]

        def _dispose(self, value_ref: Any, value_executor_id: Any) -> None:
            # A worker that is gone has forgotten the value.
            with suppress(grpc.RpcError):
                super()._dispose(value_ref, value_executor_id)

    return RemoteExecutor
