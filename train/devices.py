"""One run over many devices and hosts: games and minibatches are split along the axis ``data`` of a mesh.

The global batch defines the run; how many devices share it changes only rounding. Parameters, optimizer state and
the sample buffer are whole on every device: see docs/scaling.md for what moves over the network.
"""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "data"
SPLIT = PartitionSpec(AXIS)
WHOLE = PartitionSpec()
PART = 256
"""Games that one thread plays at a time on a CPU."""


def all_devices() -> Mesh:
    """A mesh of every device of every process."""
    return Mesh(np.array(jax.devices()), (AXIS,))


def fast_bfloat16() -> bool:
    """Whether this process's devices multiply bfloat16 faster than float32; CPUs need instructions for it."""
    if jax.default_backend() != "cpu":
        return True
    try:
        found = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    except OSError:
        return False  # not Linux
    return bool(found & {"avx512_bf16", "amx_bf16"})


def split(mesh: Mesh, tree: Any) -> Any:
    """Inside jit: arrays split along their first axis."""
    return jax.lax.with_sharding_constraint(tree, NamedSharding(mesh, SPLIT))


def whole(mesh: Mesh, tree: Any) -> Any:
    """Inside jit: arrays that every device has whole."""
    return jax.lax.with_sharding_constraint(tree, NamedSharding(mesh, WHOLE))


def put_whole(mesh: Mesh, tree: Any) -> Any:
    """Arrays of the host, the same in every process, whole on every device."""
    sharding = NamedSharding(mesh, WHOLE)
    return jax.tree.map(lambda x: jax.make_array_from_callback(np.shape(x), sharding, lambda _: x), tree)


def to_host(tree: Any) -> Any:
    """Whole arrays as NumPy arrays."""
    return jax.tree.map(lambda x: np.asarray(x.addressable_data(0)), tree)


def in_parts(mesh: Mesh, keys: jax.Array, play: Callable[[jax.Array], Any], of_games: int = PART) -> Any:
    """What ``play(keys)`` returns, in parts of about ``of_games`` games where the mesh is one CPU.

    There the parts run in as many threads as cores: much of a game is small steps, each of which keeps one core busy.

    Args:
      keys: ``[G]``, one a game.
      play: jitted; returns arrays with games, or a multiple of them, along the first axis. A game must depend on
        nothing but its key.
    """
    alone = mesh.size == 1 and mesh.devices.flat[0].platform == "cpu"
    num = -(-len(keys) // of_games)
    if not alone or num == 1:
        return play(keys)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(play, jnp.array_split(keys, num)))
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), *found)


def connect(coordinator: str, processes: int | None, process: int | None) -> None:
    """Join the other processes of a run, before anything else is asked of JAX.

    Args:
      coordinator: ``HOST:PORT`` of process 0, or ``auto`` for what the cluster's environment says.
    """
    if coordinator == "auto":
        jax.distributed.initialize()
    else:
        jax.distributed.initialize(coordinator, processes, process)


def is_first() -> bool:
    """Whether this process is the one that writes files and talks."""
    return jax.process_index() == 0
