"""One run over many devices and hosts: games and minibatches are split along the axis ``data`` of a mesh.

The global batch defines the run; how many devices share it changes only rounding. Parameters, optimizer state and
the sample buffer are whole on every device: see docs/scaling.md for what moves over the network.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "data"
SPLIT = PartitionSpec(AXIS)
WHOLE = PartitionSpec()


def all_devices() -> Mesh:
    """A mesh of every device of every process."""
    return Mesh(np.array(jax.devices()), (AXIS,))


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
