"""Ridge statistics by other libraries, on the same reservoir and sequences; prints seconds a step as JSON.

Run by `ridge_statistics.py` with an interpreter that has them: see its docstring.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np


def reservoirpy_numpy(data: dict, workers: int) -> Callable[[], np.ndarray]:
    """NumPy nodes."""
    from reservoirpy.nodes import Reservoir, Ridge

    reservoir = Reservoir(W=data["w"], Win=data["w_in"], lr=float(data["rate"]), bias=0.0)
    ridge = Ridge(fit_bias=False)

    def run() -> np.ndarray:
        series = list(data["values"])
        states = reservoir.run(series, workers=workers)
        parts = [ridge.worker(own, target)[0] for own, target in zip(states, data["targets"])]
        return np.sum(parts, axis=0)

    return run


def reservoirpy_jax(data: dict, jitted: bool) -> Callable[[], np.ndarray]:
    """JAX nodes: called as they are, or all sequences at once in one compiled function."""
    import jax
    import jax.numpy as jnp
    from reservoirpy.jax.nodes import Reservoir, Ridge

    reservoir = Reservoir(W=jnp.asarray(data["w"]), Win=jnp.asarray(data["w_in"]), lr=float(data["rate"]), bias=0.0)
    ridge = Ridge(fit_bias=False)
    values, targets = jnp.asarray(data["values"]), jnp.asarray(data["targets"])
    reservoir.initialize(values)
    ridge.initialize(jnp.zeros((*values.shape[:2], len(data["w"]))), targets)
    start = reservoir.state

    def statistics(values: jax.Array, targets: jax.Array) -> jax.Array:
        _, states = jax.vmap(lambda own: reservoir._run(start, own))(values)
        return ridge.worker(states.reshape(-1, states.shape[2]), targets.reshape(-1, targets.shape[2]))[0]

    compiled = jax.jit(statistics)

    def run() -> np.ndarray:
        if jitted:
            return np.asarray(compiled(values, targets))
        reservoir.reset()
        states = reservoir.run(values)
        return np.asarray(sum(ridge.worker(own, target)[0] for own, target in zip(states, targets)))

    return run


def esnfed(data: dict, dtype: type) -> Callable[[], np.ndarray]:
    """Its federated statistics."""
    from esnfed.esn import EchoStateNetwork

    radius = float(np.abs(np.linalg.eigvals(data["w"])).max())
    into = np.concatenate((np.zeros((len(data["w"]), 1)), data["w_in"]), axis=1)
    network = EchoStateNetwork(
        data["w_in"].shape[1],
        data["targets"].shape[2],
        data["w"],
        spectral_radius=radius,
        leaking_rate=float(data["rate"]),
        washout=0,
        input_weights=into,
        dtype=dtype,
    )

    def run() -> np.ndarray:
        parts = [network.local_statistics(own, target)[0] for own, target in zip(data["values"], data["targets"])]
        first = 1 + data["w_in"].shape[1]
        return np.sum(parts, axis=0)[first:, first:]

    return run


def peers(data: dict) -> Iterator[tuple[str, Callable[[], np.ndarray]]]:
    """All of them, by name."""
    yield "reservoirpy", reservoirpy_numpy(data, 1)
    yield f"reservoirpy, {os.cpu_count()} workers", reservoirpy_numpy(data, -1)
    yield "reservoirpy JAX", reservoirpy_jax(data, jitted=False)
    yield "reservoirpy JAX, batched and compiled", reservoirpy_jax(data, jitted=True)
    yield "esnfed", esnfed(data, np.float64)
    yield "esnfed float32", esnfed(data, np.float32)


def main() -> None:
    """Times each."""
    data = dict(np.load(sys.argv[1]))
    for name, run in peers(data):
        try:
            b = run()  # compiles, and shows that it is the same reservoir
            seconds = []
            for _ in range(2):
                start = time.perf_counter()
                run()
                seconds.append(time.perf_counter() - start)
        except Exception as error:  # a peer that is not there, or cannot do it, is told of and left out
            print(json.dumps({"name": name, "error": f"{type(error).__name__}: {error}"}), flush=True)
            continue
        off = float(np.abs(b - data["b"]).max() / np.abs(data["b"]).max())
        steps = data["values"].shape[0] * data["values"].shape[1]
        print(json.dumps({"name": name, "seconds_a_step": min(seconds) / steps, "off": off}), flush=True)


if __name__ == "__main__":
    main()
